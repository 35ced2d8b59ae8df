// Scores pictures with an exported graph, without Python.
//   score part.onnx a.ppm b.ppm      prints a line of JSON for each; pictures of the model's size
// Build: g++ -std=c++17 -O2 score.cpp -I/usr/include/onnxruntime -lonnxruntime -o score
#include <onnxruntime_cxx_api.h>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

static std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

// part.json has the threshold that counts: `edgeseg threshold` and `calibrate` write it there.
static double threshold_of(const std::string& model) {
  const std::string text = bytes_of(model.substr(0, model.rfind('.')) + ".json");
  for (const char* key : {"\"ignored_here\"", "\"geometry\"", "\"tiles\""})
    if (text.find(key) != std::string::npos)
      throw std::runtime_error(model + ": looks at regions or tiles, which edgeseg's runtime does");
  const auto at = text.find("\"score\"", text.find("\"threshold\""));
  return std::stod(text.substr(text.find(':', at) + 1));
}

// RGB as it lies in a binary PPM; cameras give the same bytes.
static std::vector<uint8_t> picture_of(const std::string& path, int64_t height, int64_t width) {
  std::ifstream file(path, std::ios::binary);
  std::string magic, white;
  int64_t w = 0, h = 0;
  file >> magic >> w >> h >> white, file.get();  // one blank ends the head
  std::vector<uint8_t> rgb(height * width * 3);
  const bool fits = magic == "P6" && w == width && h == height && white == "255";
  if (!fits || !file.read(reinterpret_cast<char*>(rgb.data()), rgb.size()))
    throw std::runtime_error(path + ": expected a P6 of the model's size");
  return rgb;
}

int main(int argc, char** argv) try {
  if (argc < 3) throw std::runtime_error("usage: score part.onnx PICTURE.ppm...");
  Ort::Env env;
  Ort::Session session(env, argv[1], Ort::SessionOptions());
  auto shape = session.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape();  // N, H, W, 3
  shape[0] = 1;
  const double threshold = threshold_of(argv[1]);
  std::cout.precision(9);
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  for (int i = 2; i < argc; ++i) {
    auto rgb = picture_of(argv[i], shape[1], shape[2]);
    auto frame = Ort::Value::CreateTensor(memory, rgb.data(), rgb.size(), shape.data(), 4);
    const char *input = "frames", *output = "score";  // "map" is float32 [N, H, W]
    auto out = session.Run({}, &input, &frame, 1, &output, 1);
    const float score = out[0].GetTensorData<float>()[0];
    const char* verdict = score > threshold ? "defect" : score <= threshold ? "good" : "invalid";
    std::cout << "{\"score\": " << score << ", \"verdict\": \"" << verdict << "\"}\n";
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}

// Scores pictures with an exported graph, without Python.
//   dotnet new console -n score && cd score && cp .../Score.cs Program.cs
//   dotnet add package Microsoft.ML.OnnxRuntime
//   dotnet run -- part.onnx a.ppm b.ppm      prints a line of JSON for each
using System;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;
using Microsoft.ML.OnnxRuntime;
using Microsoft.ML.OnnxRuntime.Tensors;

static class Score
{
    // RGB as it lies in a binary PPM; cameras give the same bytes.
    static byte[] PictureOf(string path, int height, int width)
    {
        byte[] file = File.ReadAllBytes(path);
        string start = Encoding.ASCII.GetString(file, 0, Math.Min(64, file.Length));
        Match head = Regex.Match(start, @"^P6\s+(\d+)\s+(\d+)\s+255\s");
        bool fits = head.Success && head.Groups[1].Value == width.ToString()
            && head.Groups[2].Value == height.ToString();
        byte[] rgb = fits ? file.Skip(head.Length).ToArray() : new byte[0];
        if (rgb.Length != height * width * 3)
            throw new InvalidDataException($"{path}: expected a P6 of the model's size, {width}x{height}");
        return rgb;
    }

    static void Run(string model, string[] pictures)
    {
        // part.json has the threshold that counts: `edgeseg threshold` and `calibrate` write it there.
        string text = File.ReadAllText(Path.ChangeExtension(model, ".json"));
        JsonElement facts = JsonDocument.Parse(text).RootElement;
        if (new[] { "ignored_here", "geometry", "tiles" }.Any(key => facts.TryGetProperty(key, out _)))
            throw new InvalidDataException($"{model}: looks at regions or tiles, which edgeseg's runtime does");
        JsonElement size = facts.GetProperty("input").GetProperty("size_hw");
        int height = size[0].GetInt32(), width = size[1].GetInt32();
        double threshold = facts.GetProperty("threshold").GetProperty("score").GetDouble();
        using var session = new InferenceSession(model);
        foreach (string path in pictures)
        {
            byte[] rgb = PictureOf(path, height, width);
            var frames = new DenseTensor<byte>(rgb, new[] { 1, height, width, 3 });
            var input = new[] { NamedOnnxValue.CreateFromTensor("frames", frames) };
            using var outputs = session.Run(input, new[] { "score" }); // "map" is float32 [N, H, W]
            float score = outputs.First().AsEnumerable<float>().First();
            string verdict = score > threshold ? "defect" : score <= threshold ? "good" : "invalid";
            string figure = score.ToString("R", CultureInfo.InvariantCulture);
            Console.WriteLine($"{{\"score\": {figure}, \"verdict\": \"{verdict}\"}}");
        }
    }

    static int Main(string[] given)
    {
        try
        {
            if (given.Length < 2) throw new ArgumentException("usage: score part.onnx PICTURE.ppm...");
            Run(given[0], given.Skip(1).ToArray());
            return 0;
        }
        catch (Exception error)
        {
            Console.Error.WriteLine(error.Message);
            return 1;
        }
    }
}

// Scores pictures with an exported graph, without Python.
//   npm install onnxruntime-node
//   node score.js part.onnx a.ppm b.ppm      prints a line of JSON for each
const fs = require("node:fs");
const ort = require("onnxruntime-node");

// RGB as it lies in a binary PPM; cameras give the same bytes.
function pictureOf(path, height, width) {
  const file = fs.readFileSync(path);
  const head = /^P6\s+(\d+)\s+(\d+)\s+255\s/.exec(file.toString("latin1", 0, 64));
  const fits = head && Number(head[1]) === width && Number(head[2]) === height;
  const rgb = fits ? file.subarray(head[0].length) : [];
  if (rgb.length !== height * width * 3) {
    throw new Error(`${path}: expected a P6 of the model's size, ${width}x${height}`);
  }
  return Uint8Array.from(rgb);
}

async function main([model, ...pictures]) {
  if (pictures.length === 0) throw new Error("usage: score.js part.onnx PICTURE.ppm...");
  // part.json has the threshold that counts: `edgeseg threshold` and `calibrate` write it there.
  const facts = JSON.parse(fs.readFileSync(model.replace(/\.onnx$/, ".json"), "utf8"));
  if (facts.ignored_here || facts.geometry || facts.tiles) {
    throw new Error(`${model}: looks at regions or tiles, which edgeseg's runtime does, not this`);
  }
  const [height, width] = facts.input.size_hw;
  const session = await ort.InferenceSession.create(model);
  for (const path of pictures) {
    const rgb = pictureOf(path, height, width);
    const frames = new ort.Tensor("uint8", rgb, [1, height, width, 3]);
    const outputs = await session.run({ frames }); // outputs.map is float32 [N, H, W]
    const score = outputs.score.data[0];
    const good = score <= facts.threshold.score;
    const verdict = score > facts.threshold.score ? "defect" : good ? "good" : "invalid";
    console.log(JSON.stringify({ score, verdict }));
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});

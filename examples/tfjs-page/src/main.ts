import { firstDigits, loadDigits } from "@backplane/example-digits/data.js";
import { runPageProgram } from "@backplane/page";
import { testPath, testSize, trainingPath, trainingSize } from "./files.js";

const { training, test } = loadDigits();
const files = [
  [trainingPath, firstDigits(training, trainingSize)],
  [testPath, firstDigits(test, testSize)],
] as const;

await runPageProgram(
  {
    command: "npx -y pnpm@12 tfjs-page",
    purpose:
      "A page that trains a model of TensorFlow.js, on the GPU or the CPU, as a button says, and plots its loss.",
    html: new URL("../src/index.html", import.meta.url),
    script: new URL("./page.js", import.meta.url),
    files: Object.fromEntries(
      files.flatMap(([path, { images, labels }]) => [
        [`${path}/images.bin`, images],
        [`${path}/labels.bin`, labels],
      ]),
    ),
  },
  process.argv.slice(2),
);

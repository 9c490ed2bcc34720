// Tags: kernels, pure
import { lawId, laws } from "@backplane/conformance";
import { type ConvolutionTile, convolutionTransforms } from "@backplane/core";
import { describeWebGpu } from "./laws-support.js";

const telling = [
  "conv2d f32: is exact on whole numbers, and within the error bound, with filters of 3 x 3",
  "conv2d f32: keeps NaN out of results whose windows, or declared tiles, do not meet it",
  "lifecycle: capabilities are complete after init",
];

/** Held to the bound that the option declares. */
for (const tile of Object.keys(convolutionTransforms) as ConvolutionTile[])
  describe(`with transformed convolutions of ${tile}`, () => {
    describeWebGpu(
      laws.filter((law) => telling.includes(lawId(law))),
      { mode: "quick" },
      { transformedConvolutions: tile, variants: { conv2d: `transformed_${tile}` } },
    );
  });

import { floatTypes, integerTypes } from "@backplane/core";
import type { OperationEntry } from "../operation.js";
import { runBinary } from "./binary.js";
import { type BinaryType, binaryAccuracy, binaryKindsOf } from "./functions.wgsl.js";
import { binarySegments } from "./segments.js";

export { binaryText } from "./functions.wgsl.js";

const types: readonly (readonly BinaryType[])[] = [floatTypes, integerTypes, ["u8"]];

export const binary: OperationEntry<"binary"> = {
  operation: "binary",
  supports: types.map((dtype) => ({ dtype, kind: binaryKindsOf(dtype[0]!) })),
  run: runBinary,
  segments: () => binarySegments,
  accuracy: binaryAccuracy,
};

import { floatTypes, integerTypes } from "@backplane/core";
import type { OperationEntry } from "../operation.js";
import { runBinary } from "./binary.js";
import { binaryAccuracy, integerKinds } from "./functions.wgsl.js";
import { binarySegments } from "./segments.js";

export const binary: OperationEntry<"binary"> = {
  operation: "binary",
  supports: [{ dtype: floatTypes }, { dtype: integerTypes, kind: integerKinds }],
  run: runBinary,
  segments: () => binarySegments,
  accuracy: binaryAccuracy,
};

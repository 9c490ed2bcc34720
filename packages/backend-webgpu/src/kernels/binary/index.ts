import {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryProblem,
  type FloatType,
  floatTypes,
} from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { runBinary } from "./binary.js";
import { binaryAccuracy } from "./functions.wgsl.js";
import { binarySegments } from "./segments.js";

export const binary: OperationEntry<"binary", BinaryProblem<DeviceMemory, FloatType, ArithmeticKind>> = {
  operation: "binary",
  supports: [{ dtype: floatTypes, kind: arithmeticKinds }],
  run: runBinary,
  segments: () => binarySegments,
  accuracy: binaryAccuracy,
};

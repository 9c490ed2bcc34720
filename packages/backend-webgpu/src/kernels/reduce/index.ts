import {
  floatTypes,
  integerTypes,
  numberReduceKinds,
  type ReduceProblem,
  truthReduceKinds,
} from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { runReduce } from "./reduce.js";
import { reduceSegments } from "./segments.js";
import { type ReduceLoads, reduceFields, reduceVariants } from "./select.js";

export const reduce: OperationEntry<"reduce", ReduceProblem<DeviceMemory>, ReduceLoads> = {
  operation: "reduce",
  supports: [
    { dtype: floatTypes, kind: numberReduceKinds },
    { dtype: integerTypes, kind: ["sum", "prod", "max", "min"] },
    { dtype: ["u8"], kind: truthReduceKinds },
  ],
  run: runReduce,
  segments: reduceSegments,
  variants: { rows: reduceVariants, fields: reduceFields },
};

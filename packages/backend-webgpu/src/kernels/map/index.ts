import type { MapElementType, MapProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { mapSegments } from "./segments.js";
import { runMap } from "./split.js";

const types: readonly MapElementType[] = ["f32", "f16", "i32", "u32", "u8"];

export const map: OperationEntry<"map", MapProblem<DeviceMemory>> = {
  operation: "map",
  alike: ["select"],
  supports: [{ dtype: types, inputTypes: types, outputTypes: types }],
  run: runMap,
  segments: () => mapSegments,
};

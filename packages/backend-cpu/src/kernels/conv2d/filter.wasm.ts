import { dtypeBytes, type FloatType } from "@backplane/core";
import { i32 } from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { convolutionTile } from "./tile.js";

const packTypes = {
  filter: "i32",
  packed: "i32",
  groupOutChannels: "i32",
  depth: "i32",
  groupFilterBytes: "i32",
  /** Panels of one group. */
  panels: "i32",
} as const;

export type PackFilterTypes = typeof packTypes;

/** Filter panels for the tall tile: packed[group][panel][t][channel] = filter[group][panel * channels + channel][t]. */
export function packFilterKernel(dtype: FloatType): Kernel<PackFilterTypes> {
  const bytes = dtypeBytes[dtype];
  return defineKernel({
    name: `conv2d_pack_${dtype}`,
    parameters: packTypes,
    emit(f, { parameters, chunk, module, features }) {
      const { channels } = convolutionTile("tall", features);
      const { groupOutChannels, depth, panels } = parameters;
      const group = f.let(i32.divU(chunk, panels));
      const panel = f.let(i32.remU(chunk, panels));
      const channel = f.let(i32.mul(panel, channels));
      const row = i32.add(i32.mul(group, groupOutChannels), channel);
      const panelStart = i32.mul(i32.mul(panel, depth), 4 * channels);
      f.call(
        packFunction(module, dtype, channels),
        i32.add(parameters.filter, i32.mul(i32.mul(row, depth), bytes)),
        i32.mul(depth, bytes),
        i32.minU(i32.sub(groupOutChannels, channel), channels),
        depth,
        i32.add(i32.add(parameters.packed, i32.mul(group, parameters.groupFilterBytes)), panelStart),
        1,
        0,
      );
    },
  });
}

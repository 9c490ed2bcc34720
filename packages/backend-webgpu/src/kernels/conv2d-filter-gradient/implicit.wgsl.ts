import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  memoized,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  operandText,
  type ProductTile,
  productSource,
  quadAccess,
  tileInBands,
  tileName,
} from "../tiles/index.js";
import { gradientParameters, storeSum } from "./parameters.js";
import { channelsStage, pixelFunctions, planesStage, windowFunctions, windowsStage } from "./stages.wgsl.js";

/** The properties that a product is generated for, besides its tile; sizes are parameters. */
export interface ImplicitForm {
  readonly dtype: FloatType;
  /** Quads of the output's gradient can be read: its planes are whole quads, and aligned. */
  readonly vectorGradient: boolean;
  /**
   * How the input is read. `windows`: at any places. `points`: one place for each pixel, the same one. `quads`: as
   * `points`, four pixels at a time. `channels`: at any places of images with their padding whose channels are last, four
   * channels at a time; results then have channels last, too.
   */
  readonly reading: "windows" | "points" | "quads" | "channels";
  /**
   * Where sums go: `results` as far as there are any, or `tiles` of parts, whole ones, for `combineProgram`.
   */
  readonly stores: "results" | "tiles";
}

/**
 * Implicit gemm: for each group, the output's gradient (output channels x pixels of the whole batch) times windows of the
 * input (pixels x places of the filter), whose values are gathered when they are staged. Pixels may be summed in parts;
 * the results, in f32, are then parts x those of one.
 */
export const implicitProgram: (tile: ProductTile, form: ImplicitForm) => Program = memoized(
  (tile: ProductTile, form: ImplicitForm): Program => {
    const { dtype, vectorGradient, reading, stores } = form;
    const inTiles = stores === "tiles";
    const gradient = operandText("gradient", dtype, vectorGradient);
    const source = operandText("input", dtype, reading === "quads" || reading === "channels");
    const quad = quadAccess("input", dtype);
    const planes = () =>
      planesStage(tile, {
        ...{ side: "right", vector: reading === "quads", load1: "input_load1", quad },
        ...{ base: "first_input", extent: "parameters.group_channels" },
        imageStep: "(parameters.in_channels * plane)",
      });
    const stages = {
      ...{ windows: () => windowsStage(tile), channels: () => channelsStage(tile, quad) },
      ...{ points: planes, quads: planes },
    };
    const functions = {
      windows: windowFunctions.replaceAll("input_base", "(parameters.input_offset * input_unit)"),
      ...{ channels: pixelFunctions, points: "", quads: "" },
    };
    return program({
      name: `conv2d_filter_gradient_${tileName(tile)}_${dtype}_${reading}${vectorGradient ? "_g4" : ""}_${stores}`,
      bindings: {
        gradient: gradient.storage, // batch x groups * group_outputs x out_height x out_width
        input: source.storage, // batch x in_channels x height x width
        // parts x groups * group_outputs x group_channels x kernel_height x kernel_width; of tiles with room for whole ones
        output: output(inTiles ? "vec4f" : "f32"),
      },
      parameters: gradientParameters,
      uniform: true,
      body: productSource({
        tile,
        declarations: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${gradient.functions}
${source.functions}
${functions[reading]}
${inTiles ? "" : storeSome}
`,
        prologue: wgsl`
  let plane = parameters.out_height * parameters.out_width;
  let taps = parameters.group_channels * parameters.kernel_height * parameters.kernel_width;
  let tiles_across = (taps + COLUMNS - 1u) / COLUMNS;
  let tiles = tiles_across * ((parameters.group_outputs + ROWS - 1u) / ROWS);
  let parts = (parameters.pixels + parameters.part - 1u) / parameters.part;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parts * parameters.groups) { return; }
  let channel_group = group / tiles % parameters.groups;
  let part = group / tiles / parameters.groups;
  let depthStart = part * parameters.part;
  let k = min(parameters.pixels, depthStart + parameters.part);
${tileInBands}
  let first_output = channel_group * parameters.group_outputs;
  let first_gradient = parameters.gradient_offset * gradient_unit + first_output * plane;
  let first_input = ${
    reading === "windows"
      ? "channel_group * parameters.group_channels * parameters.height * parameters.width"
      : "parameters.input_offset * input_unit + channel_group * parameters.group_channels * plane"
  };
${inTiles ? baseOfTiles : "  let output_base = parameters.output_offset + (part * parameters.groups * parameters.group_outputs + first_output) * taps;"}`,
        left: planesStage(tile, {
          ...{ side: "left", vector: vectorGradient, load1: "gradient_load1" },
          ...{ quad: quadAccess("gradient", dtype), base: "first_gradient" },
          ...{
            extent: "parameters.group_outputs",
            imageStep: "(parameters.groups * parameters.group_outputs * plane)",
          },
        }),
        right: stages[reading](),
        storesInLoop: !inTiles,
        store: (row, column, quad) =>
          inTiles
            ? `output[output_base + ${row} * pitch + (${column}) / 4u] = ${quad};`
            : `if (${row} < parameters.group_outputs && ${column} < taps) {
      store_some(output_base + ${row} * taps + ${column}, taps - (${column}), ${quad});
    }`,
      }),
    });
  },
);

const storeSome = wgsl`
${storeSum}
/// The first columns of four.
fn store_some(at: u32, count: u32, sums: vec4f) {
  store_sum(at, sums.x);
  if (count > 1u) { store_sum(at + 1u, sums.y); }
  if (count > 2u) { store_sum(at + 2u, sums.z); }
  if (count > 3u) { store_sum(at + 3u, sums.w); }
}
`;

const baseOfTiles = wgsl`
  let pitch = tiles_across * (COLUMNS / 4u);
  let output_base = parameters.output_offset + (part * parameters.groups + channel_group) * (tiles / tiles_across * ROWS) * pitch;`;

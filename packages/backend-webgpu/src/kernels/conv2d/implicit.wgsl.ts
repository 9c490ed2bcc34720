import { memoized, type Program, program, wgsl } from "../../program/index.js";
import { storesInLoops } from "../epilogue.wgsl.js";
import { type Block, wideBinding, wideParameters, wideText } from "../gemm/index.js";
import {
  matrixStage,
  operandText,
  type ProductTile,
  productSource,
  quadAccess,
  tileInBands,
  tileName,
} from "../tiles/index.js";
import { type Patches, patchParameters, patchStage, pixelFunctions, tapFunctions } from "./patches.wgsl.js";
import { type ConvResult, resultName, resultText } from "./results.wgsl.js";

/** The properties that an implicit product is generated for, besides its tile; sizes are parameters. */
export interface ImplicitForm extends ConvResult {
  /** The taps of one output channel are a multiple of four and the filter is aligned to four elements. */
  readonly vectorFilter: boolean;
  readonly patches: Patches;
  /** Computes only the results in wide blocks of this size: those that `enqueueSplit` leaves. */
  readonly onlyWide?: Block;
}

/**
 * Implicit gemm: for each group, filter (output channels x taps) times patches (taps x pixels of the whole
 * batch), whose values are gathered from the input when they are staged. Taps may be summed in parts of
 * `part_depth`; the results are then parts x those of one.
 */
export const implicitProgram: (tile: ProductTile, form: ImplicitForm) => Program = memoized(
  (tile: ProductTile, form: ImplicitForm): Program => {
    const { patches, onlyWide } = form;
    const source = operandText("input", form.dtype, patches === "quads");
    const filter = operandText("filter_", form.dtype, form.vectorFilter);
    const result = resultText(form);
    return program({
      name: `conv2d_implicit_${tileName(tile)}_${form.dtype}_${form.patches}${form.vectorFilter ? "_f4" : ""}${onlyWide ? "_wide" : ""}${resultName(form)}`,
      bindings: {
        input: source.storage, // batch x in_channels x height x width
        filter_: filter.storage, // groups * group_outputs x group_channels x kernel_height x kernel_width
        ...(onlyWide ? wideBinding : {}),
        ...result.bindings,
      },
      parameters: { ...patchParameters, part_depth: "u32", ...(onlyWide ? wideParameters : {}) },
      uniform: true,
      body: productSource({
        tile,
        declarations: wgsl`${result.declarations}
${source.functions}
${filter.functions}
${pixelFunctions.replaceAll("input_base", "parameters.input_offset * input_unit")}
${patches === "padded" ? tapFunctions(form.dtype) : ""}${onlyWide ? wideText(onlyWide) : ""}
`,
        prologue: wgsl`
  let tiles_across = (parameters.pixels + COLUMNS - 1u) / COLUMNS;
  let tiles = tiles_across * ((parameters.group_outputs + ROWS - 1u) / ROWS);
  let taps = parameters.group_channels * parameters.kernel_height * parameters.kernel_width;
  let parts = (taps + parameters.part_depth - 1u) / parameters.part_depth;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parts * parameters.groups) { return; }
  let channelGroup = group / tiles % parameters.groups;
  let part = group / tiles / parameters.groups;
  let depthStart = part * parameters.part_depth;
  let k = min(taps, depthStart + parameters.part_depth);
${tileInBands}${onlyWide ? "\n  if (!is_wide(0u, rowBase, columnBase)) { return; }" : ""}
  let first_output = channelGroup * parameters.group_outputs;
  let filter_base = parameters.filter__offset * filter__unit + first_output * taps;
  let part_base = part * parameters.pixels * parameters.groups * parameters.group_outputs;`,
        left: matrixStage(tile, {
          ...{ side: "left", contiguousDepth: true, vector: form.vectorFilter },
          ...{ load1: "filter__load1", quad: quadAccess("filter_", form.dtype), base: "filter_base" },
          ...{ pitch: "taps", extent: "parameters.group_outputs" },
        }),
        right: patchStage(tile, patches),
        prepareStore: (number, column) => {
          if (form.vectorOutput) return `  let place_${number} = part_base + output_place(${column});`;
          const places = [0, 1, 2, 3].map((i) => `part_base + output_place(${column} + ${i}u)`);
          return `  let place_${number} = vec4u(${places.join(", ")});`;
        },
        storesInLoop: storesInLoops(form),
        store: (row, column, quad, number) => {
          const count = form.vectorOutput ? "" : `parameters.pixels - (${column}), `;
          return `if (${row} < parameters.group_outputs && ${column} < parameters.pixels) {
      store_${form.vectorOutput ? "four" : "some"}(first_output + ${row}, place_${number}, ${count}${quad});
    }`;
        },
      }),
    });
  },
);

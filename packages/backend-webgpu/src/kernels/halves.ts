import {
  type ComputedType,
  halfFunctions,
  input,
  linearBuiltins,
  output,
  type Program,
  packQuad,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../program/index.js";
import type { BufferRegion, KernelContext } from "../runtime/index.js";

/** `batch` matrices of `rows` x `columns` elements. */
export interface MatrixLayout {
  readonly batch: number;
  readonly rows: number;
  readonly columns: number;
  /** Elements from one row of the output to the next. Default: columns. */
  readonly rowStride?: number;
  /**
   * Elements from one matrix of the output to the next: at least the extent of one, or, if the matrices lie
   * side by side, at least `columns` with all of them inside `rowStride`. Default: tight.
   */
  readonly batchStride?: number;
}

/** The same as nested loops over the output, the larger stride outside. Both forms of layout fit it. */
interface Nest {
  readonly outerCount: number;
  readonly outerStride: number;
  readonly outerSource: number;
  readonly middleCount: number;
  readonly middleStride: number;
  readonly middleSource: number;
}

type StoreParameter = "words" | "columns" | "outer_count" | "outer_stride" | "outer_source" | MiddleParameter;
type MiddleParameter = "middle_count" | "middle_stride" | "middle_source";

/**
 * Each invocation owns one word of the output, that is two neighbouring places. Places count from the
 * start of the output region: place = outer * outer_stride + middle * middle_stride + column.
 */
const storeHalvesProgram: Program<"source" | "output", StoreParameter> = program({
  name: "store_halves",
  bindings: { source: input("f32"), output: output("half") },
  parameters: {
    ...{ words: "u32", columns: "u32" },
    ...{ outer_count: "u32", outer_stride: "u32", outer_source: "u32" },
    ...{ middle_count: "u32", middle_stride: "u32", middle_source: "u32" },
  },
  body: wgsl`
${workgroupIndex}
${halfFunctions}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.words) { return; }
  let word_index = (parameters.output_offset >> 1u) + index;
  var word = output[word_index];
  for (var side = 0u; side < 2u; side++) {
    // In front of the region it wraps round to a large number, which no loop of the nest reaches.
    let place = 2u * word_index + side - parameters.output_offset;
    let outer = place / parameters.outer_stride;
    let in_outer = place % parameters.outer_stride;
    let middle = in_outer / parameters.middle_stride;
    let column = in_outer % parameters.middle_stride;
    if (outer < parameters.outer_count && middle < parameters.middle_count && column < parameters.columns) {
      let at = outer * parameters.outer_source + middle * parameters.middle_source + column;
      word = with_half(word, side, source[parameters.source_offset + at]);
    }
  }
  output[word_index] = word;
}
`,
});

/** For one row, at any place: as `storeHalvesProgram`, without looking for the row that a word lies in. */
const storeHalfRowProgram: Program<"source" | "output", "words" | "columns"> = program({
  name: "store_half_row",
  bindings: { source: input("f32"), output: output("half") },
  parameters: { words: "u32", columns: "u32" },
  light: true,
  body: wgsl`
${workgroupIndex}
${halfFunctions}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.words) { return; }
  let word_index = (parameters.output_offset >> 1u) + index;
  // In front of the region it wraps round to a large number, and the next is 0.
  let place = 2u * word_index - parameters.output_offset;
  let hasLow = place < parameters.columns;
  let hasHigh = place + 1u < parameters.columns;
  let low = source[parameters.source_offset + select(0u, place, hasLow)];
  let high = source[parameters.source_offset + select(0u, place + 1u, hasHigh)];
  if (hasLow && hasHigh) {
    output[word_index] = pack_halves(low, high);
  } else if (hasLow) {
    output[word_index] = with_half(output[word_index], 0u, low);
  } else if (hasHigh) {
    output[word_index] = with_half(output[word_index], 1u, high);
  }
}
`,
});

/** For rows of whole, aligned quads, wherever they lie: one invocation writes a quad, and reads nothing back. */
const storeHalfQuadsProgram: Program<
  "source" | "output",
  "rows" | "row_quads" | "quads" | "row_stride" | "batch_stride"
> = program({
  name: "store_half_quads",
  bindings: { source: input("vec4f"), output: output("half4") },
  // The quads of all rows, in a row, and from one row and one matrix of the output to the next.
  parameters: { rows: "u32", row_quads: "u32", quads: "u32", row_stride: "u32", batch_stride: "u32" },
  light: true,
  body: wgsl`
${workgroupIndex}
${halfFunctions}${packQuad}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.quads) { return; }
  let row = index / parameters.row_quads;
  let at = row / parameters.rows * parameters.batch_stride + row % parameters.rows * parameters.row_stride
    + index % parameters.row_quads;
  output[parameters.output_offset + at] = pack_quad(source[parameters.source_offset + index]);
}
`,
});

/**
 * Rounds f32 numbers to f16 and writes them to an output laid out as `layout`; everything between rows
 * and matrices keeps its bits. `source` holds the matrices tightly: batch x rows x columns.
 */
export function storeHalves(
  context: KernelContext,
  source: BufferRegion,
  output: BufferRegion,
  matrices: MatrixLayout,
): void {
  const layout = joined(matrices);
  if (hasQuads(source, output, layout)) {
    storeQuads(context, source, output, layout);
    return;
  }
  const first = Math.floor(output.byteOffset / 4);
  const words = Math.ceil((output.byteOffset + output.byteLength) / 4) - first;
  if (layout.batch * layout.rows === 1) {
    const row = { words, columns: layout.columns };
    context.dispatch(storeHalfRowProgram, { source, output }, row, Math.ceil(words / WORKGROUP_SIZE));
    return;
  }
  const nest = nestOf(layout, output.byteLength / 2);
  context.dispatch(
    storeHalvesProgram,
    { source, output },
    {
      ...{ words, columns: layout.columns },
      ...{ outer_count: nest.outerCount, outer_stride: nest.outerStride, outer_source: nest.outerSource },
      ...{
        middle_count: nest.middleCount,
        middle_stride: nest.middleStride,
        middle_source: nest.middleSource,
      },
    },
    Math.ceil(words / WORKGROUP_SIZE),
  );
}

/** One row in place of rows, and of matrices, that lie one right after the other. */
function joined(layout: MatrixLayout): MatrixLayout {
  const { batch, rows, columns, rowStride = columns, batchStride = rows * rowStride } = layout;
  if (rows > 1 && rowStride !== columns) return layout;
  if (batch > 1 && batchStride !== rows * columns) return layout;
  return { batch: 1, rows: 1, columns: batch * rows * columns };
}

function hasQuads(source: BufferRegion, output: BufferRegion, layout: MatrixLayout): boolean {
  const { batch, columns, rowStride = columns, batchStride = 0 } = layout;
  const isWhole = (elements: number) => elements % 4 === 0;
  return (
    source.byteOffset % 16 === 0 &&
    output.byteOffset % 8 === 0 &&
    isWhole(columns) &&
    isWhole(rowStride) &&
    (batch === 1 || isWhole(batchStride))
  );
}

function storeQuads(
  context: KernelContext,
  source: BufferRegion,
  output: BufferRegion,
  { batch, rows, columns, rowStride = columns, batchStride = rows * rowStride }: MatrixLayout,
): void {
  const quads = (batch * rows * columns) / 4;
  context.dispatch(
    storeHalfQuadsProgram,
    { source, output },
    {
      ...{ rows, quads, row_quads: columns / 4 },
      ...{ row_stride: rowStride / 4, batch_stride: Math.floor(batchStride / 4) },
    },
    Math.ceil(quads / WORKGROUP_SIZE),
  );
}

export type StoreRounded = typeof storeHalves;

/**
 * By the type of an output: how f32 results, which lie in scratch, get there if a kernel cannot write whole words of
 * its elements. Undefined: every kernel can.
 */
export const storeRounded: Readonly<Record<ComputedType, StoreRounded | undefined>> = {
  f32: undefined,
  f16: storeHalves,
  i32: undefined,
  u32: undefined,
};

function nestOf(layout: MatrixLayout, extent: number): Nest {
  const { batch, rows, columns, rowStride = columns } = layout;
  // The stride of a single matrix is not used, and may be anything.
  const batchStride = batch === 1 ? extent : (layout.batchStride ?? rows * rowStride);
  const overRows = { count: rows, stride: rowStride, source: columns };
  const overBatch = { count: batch, stride: batchStride, source: rows * columns };
  const sideBySide = batchStride < (rows - 1) * rowStride + columns;
  const [outer, middle] = sideBySide ? [overRows, overBatch] : [overBatch, overRows];
  return {
    ...{ outerCount: outer.count, outerStride: outer.stride, outerSource: outer.source },
    ...{ middleCount: middle.count, middleStride: middle.stride, middleSource: middle.source },
  };
}

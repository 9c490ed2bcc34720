import type { GemmProblem } from "@backplane/core";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../../runtime/index.js";
import { tiledProgram } from "../gemm.wgsl.js";
import type { ResultForm } from "../results.wgsl.js";
import type { GemmShape } from "../shape.js";
import type { SplitVariant } from "../variants.js";
import {
  ACROSS_DEPTH,
  ACROSS_LINES,
  EXTENTS_DEPTH,
  extentsProgram,
  splitAcrossProgram,
  splitAlongProgram,
  wideBlocksProgram,
} from "./pass.wgsl.js";
import { splitProgram } from "./product.wgsl.js";
import { RUN } from "./split-tile.js";

type Problem = GemmProblem<DeviceMemory>;

/** An operand as the lines that it is split by: the rows of op(A), or the columns of op(B). */
interface Lines {
  readonly source: BufferRegion;
  readonly lines: number;
  /** Broadcast operands are split once. */
  readonly matrices: number;
  readonly k: number;
  readonly pitch: number;
  readonly step: number;
  /** Lines are stored as rows. */
  readonly isAlong: boolean;
  /** Rows are whole and aligned vectors of four. */
  readonly isVector: boolean;
  /** Lines of a block of results. */
  readonly block: number;
  /** Parts of a line that the product takes at a time. */
  readonly depth: number;
}

/** Parts of f16 that an operand of f32 is split into. */
interface Parts {
  readonly parts: BufferRegion;
  /** Elements of `parts` from one line to the next. */
  readonly pitch: number;
}

/**
 * Returns by how many powers of two a number may lie below the largest of its line, such that the error of
 * each product of parts is at most a third of the k + 3 units of 2^-23 of its size that rounding a sum may
 * take. From 2^-28 of the largest on, the last bits of low parts are lost; 2^-t below that, a product loses
 * at most 2^(t + 2) + 2^(2 t + 1) of those units. For k >= `SHORTEST`.
 */
export function octavesFor(k: number): number {
  return 26 + Math.floor(Math.log2(k) / 2);
}

/**
 * An f32 product through f16 parts: splits both operands, multiplies the parts on matrix units, and leaves
 * blocks of results that have wide rows or columns (see `pass.wgsl.ts`) to the plain product, all without
 * asking the device. `regions` are the bindings of the result, `results` its parameters.
 */
export function enqueueSplit(
  context: KernelContext,
  problem: Problem,
  shape: GemmShape,
  variant: SplitVariant,
  form: ResultForm,
  regions: Readonly<Record<string, BufferRegion>>,
  results: Readonly<Record<string, number>>,
): void {
  const { m, n, k, batch, lda, ldb, strideA, strideB, transA, transB, a, b } = problem;
  const { tile, plain } = variant;
  const rows: Lines = {
    ...{ source: a, lines: m, matrices: strideA === 0 ? 1 : batch, k, pitch: lda, step: strideA },
    ...{ isAlong: !transA, isVector: shape.vectorA, block: tile.rows, depth: tile.depth },
  };
  const columns: Lines = {
    ...{ source: b, lines: n, matrices: strideB === 0 ? 1 : batch, k, pitch: ldb, step: strideB },
    ...{ isAlong: transB, isVector: shape.vectorB, block: tile.columns, depth: tile.depth },
  };
  const exponents = context.scratch(4 * (lineCount(rows) + lineCount(columns)));
  const blocks = context.scratch(4 * (blockCount(rows) + blockCount(columns)));
  // The largest last: a full pool first gives up the buffers that were returned first.
  const ofRows = extentsOf(context, rows);
  const ofColumns = extentsOf(context, columns);
  const left = split(context, rows, ofRows, exponents, 0, blocks, 0);
  const right = split(context, columns, ofColumns, exponents, lineCount(rows), blocks, blockCount(rows));

  const wide = {
    row_block_step: strideA === 0 ? 0 : Math.ceil(m / tile.rows),
    column_block_step: strideB === 0 ? 0 : Math.ceil(n / tile.columns),
    column_blocks: blockCount(rows),
  };
  context.dispatch(
    splitProgram(tile, form),
    { a: left.parts, b: right.parts, exponents, blocks, ...regions },
    {
      ...{ ...results, ...wide, k: left.pitch, part_depth: left.pitch, batch },
      ...{ a_pitch: left.pitch, a_step: strideA === 0 ? 0 : m * left.pitch },
      ...{ b_pitch: right.pitch, b_step: strideB === 0 ? 0 : n * right.pitch },
      row_step: strideA === 0 ? 0 : m,
      column_step: strideB === 0 ? 0 : n,
      column_exponents: lineCount(rows),
    },
    batch * Math.ceil(m / tile.rows) * Math.ceil(n / tile.columns),
  );
  const { vectorA, vectorB } = shape;
  const onlyWide = { rows: tile.rows, columns: tile.columns };
  context.dispatch(
    tiledProgram(plain, { ...form, transA, transB, vectorA, vectorB, onlyWide }),
    { a, b, blocks, ...regions },
    {
      ...{ ...results, ...wide, k, part_depth: k, batch },
      ...{ a_pitch: lda, a_step: strideA, b_pitch: ldb, b_step: strideB },
    },
    batch * Math.ceil(m / plain.rows) * Math.ceil(n / plain.columns),
  );
}

function lineCount({ lines, matrices }: Lines): number {
  return lines * matrices;
}

function blockCount({ lines, matrices, block }: Lines): number {
  return Math.ceil(lines / block) * matrices;
}

/** Scratch for the extents of lines that are stored as columns. */
function extentsOf(context: KernelContext, operand: Lines): BufferRegion | undefined {
  if (operand.isAlong) return undefined;
  return context.scratch(4 * 2 * Math.ceil(operand.k / EXTENTS_DEPTH) * lineCount(operand));
}

/** Splits an operand; its exponents and blocks go to their places from `firstLine` and `firstBlock` on. */
function split(
  context: KernelContext,
  operand: Lines,
  extents: BufferRegion | undefined,
  exponents: BufferRegion,
  firstLine: number,
  blocks: BufferRegion,
  firstBlock: number,
): Parts {
  const { source, lines, matrices, k, pitch, step, isVector, block, depth } = operand;
  const partPitch = Math.ceil((2 * RUN * Math.ceil(k / RUN)) / depth) * depth;
  // The last tile reads past the last line.
  const allLines = lineCount(operand) + Math.ceil(lines / block) * block - lines;
  const parts = context.scratch(2 * allLines * partPitch);
  const ofLines = words(exponents, firstLine, lineCount(operand));
  const parameters = { lines, matrices, k, pitch, step, octaves: octavesFor(k), part_pitch: partPitch };
  const target = { parts, exponents: ofLines };
  if (extents === undefined)
    context.dispatch(
      splitAlongProgram(isVector ? "quads" : "singles"),
      { source, ...target },
      parameters,
      lineCount(operand),
    );
  else {
    const lineGroups = Math.ceil(lines / ACROSS_LINES) * matrices;
    const chunks = Math.ceil(k / EXTENTS_DEPTH);
    context.dispatch(extentsProgram, { source, extents }, parameters, lineGroups * chunks);
    const stretches = Math.ceil(partPitch / 2 / ACROSS_DEPTH);
    context.dispatch(splitAcrossProgram, { source, extents, ...target }, parameters, lineGroups * stretches);
  }
  context.dispatch(
    wideBlocksProgram(block),
    { exponents: ofLines, blocks: words(blocks, firstBlock, blockCount(operand)) },
    { lines, matrices },
    blockCount(operand),
  );
  return { parts, pitch: partPitch };
}

/** Words of a region of them. */
export function words({ memory, byteOffset }: BufferRegion, first: number, count: number): BufferRegion {
  return { memory, byteOffset: byteOffset + 4 * first, byteLength: 4 * count };
}

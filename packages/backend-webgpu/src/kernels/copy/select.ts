import { type CopyProblem, dtypeBytes, elementTypes } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import { type LineShare, shareOfLine, workgroupsForLines } from "../lines/index.js";
import { tileSide } from "./tiles.wgsl.js";
import { type Unit, unitsPerInvocation } from "./units.wgsl.js";
import { vectorTileSide } from "./vector-tiles.wgsl.js";
import { wordsPerInvocation } from "./words.wgsl.js";

type Problem = CopyProblem<unknown>;

/** One axis. Strides count bytes, or what a plan says. */
export interface Axis {
  readonly extent: number;
  readonly from: number;
  readonly to: number;
}

/** A program for units, and their axes; see `unitsProgram`. */
export interface UnitsPlan {
  readonly form: "units";
  readonly unit: Unit;
  /** Undefined: lines are not told apart. */
  readonly line: LineShare | undefined;
  /** Lines, or units. */
  readonly count: number;
  readonly start: number;
  readonly axes: readonly Axis[];
  readonly workgroups: number;
}

/** See `tilesProgram` and `vectorTilesProgram`. */
export interface TilesPlan {
  readonly form: "tiles" | "vectorTiles";
  readonly bytes: 1 | 2 | 4;
  readonly start: number;
  readonly rows: Axis;
  readonly columns: Axis;
  readonly down: number;
  readonly across: number;
  readonly matrices: number;
  readonly axes: readonly Axis[];
}

/** See `wordsProgram`. */
export interface WordsPlan {
  readonly form: "words";
  /** If each block is one line without gaps. */
  readonly line: LineShare | undefined;
  readonly start: number;
  readonly blocks: number;
  readonly blockWords: number;
  readonly blockBytes: number;
  readonly outer: number;
  readonly axes: readonly Axis[];
  readonly workgroups: number;
}

/** `bytes`: all elements follow one another, and keep their type. */
export type CopyPlan = { readonly form: "bytes" } | UnitsPlan | TilesPlan | WordsPlan;

/** Rows and columns from which on a matrix is worth tiles: with fewer most of a tile would be empty. */
const LEAST_SIDE = 8;

const VECTOR_BYTES = 16;

/** Bytes of a part of a line of shared words, at least. */
const SHORT_LINE = 32;

/** Depends on shapes, strides and places alone. */
export function planCopy(problem: Problem): CopyPlan {
  const { dtype, outputDtype, shape, inputStrides, outputStrides } = problem;
  const [size, outputSize] = [dtypeBytes[dtype], dtypeBytes[outputDtype]];
  const axes = shape.map(
    (extent, i): Axis => ({ extent, from: inputStrides[i]! * size, to: outputStrides[i]! * outputSize }),
  );
  const isMove = dtype === outputDtype;
  const inner = axes.at(-1) ?? { extent: 1, from: size, to: outputSize };
  const isPlain = inner.from === size && inner.to === outputSize;
  if (isMove && isPlain && axes.length <= 1) return { form: "bytes" };
  return (
    (isMove ? (movedUnits(problem, axes, isPlain) ?? tiles(problem, axes)) : convertedUnits(problem, axes)) ??
    words(problem, axes)
  );
}

/** Vectors or words if rows consist of them; words also if they are elements, unless tiles are better. */
function movedUnits(problem: Problem, axes: readonly Axis[], isPlain: boolean): UnitsPlan | undefined {
  const size = dtypeBytes[problem.dtype];
  if (isPlain)
    for (const [unit, bytes] of [
      ["vector", 16],
      ["word", 4],
    ] as const) {
      const plan = unitsOf(problem, axes, unit, bytes, bytes, bytes / size);
      if (plan !== undefined) return plan;
    }
  if (size < 4 || tiles(problem, axes) !== undefined) return undefined;
  return unitsOf(problem, axes, "word", 4, 4, 1);
}

/** Four elements at once, if they follow one another in both operands. */
function convertedUnits(problem: Problem, axes: readonly Axis[]): UnitsPlan | undefined {
  const { dtype, outputDtype } = problem;
  const [size, outputSize] = [dtypeBytes[dtype], dtypeBytes[outputDtype]];
  const inner = axes.at(-1);
  if (inner === undefined || inner.from !== size || inner.to !== outputSize) return undefined;
  return unitsOf(problem, axes, [dtype, outputDtype], 4 * size, 4 * outputSize, 4);
}

/**
 * Units of so many bytes in the input and the output, of `elements` each along the innermost axis. Undefined: something
 * is not a whole number of them.
 */
function unitsOf(
  { input, inputStart, output, dtype }: Problem,
  axes: readonly Axis[],
  unit: Unit,
  bytes: number,
  outputBytes: number,
  elements: number,
): UnitsPlan | undefined {
  const start = inputStart * dtypeBytes[dtype];
  const inner = axes.length - 1;
  const grouped = axes.map(({ extent, from, to }, i): Axis => {
    const times = i === inner ? elements : 1;
    return { extent: extent / times, from: (from * times) / bytes, to: (to * times) / outputBytes };
  });
  const isWhole =
    input.byteOffset % bytes === 0 &&
    start % bytes === 0 &&
    output.byteOffset % outputBytes === 0 &&
    grouped.every((axis) => Object.values(axis).every(Number.isInteger));
  if (!isWhole) return undefined;
  const count = grouped.reduce((product, { extent }) => product * extent, 1);
  const perInvocation = unitsPerInvocation[typeof unit === "string" ? unit : "quad"];
  const extent = grouped.at(-1)?.extent ?? 1;
  const line = shareOfLine(extent, outputBytes, perInvocation);
  return {
    ...{ form: "units", unit, line, start: start / bytes },
    count: line === undefined ? count : count / extent,
    axes: grouped.length === 0 ? [{ extent: 1, from: 0, to: 0 }] : grouped,
    workgroups:
      line === undefined
        ? Math.ceil(count / (WORKGROUP_SIZE * perInvocation))
        : workgroupsForLines(count / extent, line),
  };
}

function tiles({ dtype, input, inputStart, output }: Problem, axes: readonly Axis[]): TilesPlan | undefined {
  const { bytes } = elementTypes[dtype];
  const columns = axes.at(-1);
  const rows = axes.findLast((axis) => axis.from === bytes);
  if (columns === undefined || rows === undefined || rows === columns) return undefined;
  // Columns that repeat are read by whole words as they are.
  if (columns.to !== bytes || columns.from === 0) return undefined;
  if (Math.min(rows.extent, columns.extent) < LEAST_SIDE) return undefined;
  const others = axes.filter((axis) => axis !== columns);
  if (output.byteOffset % 4 !== 0 || others.some(({ to }) => to % 4 !== 0)) return undefined;
  const outer = others.filter((axis) => axis !== rows);
  const isInVectors =
    [inputStart * bytes, input.byteOffset, output.byteOffset, columns.from, rows.to].every(isWhole) &&
    [rows, columns].every(({ extent }) => isWhole(extent * bytes)) &&
    outer.every(({ from, to }) => isWhole(from) && isWhole(to));
  const side = isInVectors ? vectorTileSide(bytes) : tileSide(bytes);
  const unit = isInVectors ? VECTOR_BYTES : 1;
  const inUnits = ({ extent, from, to }: Axis): Axis => ({ extent, from: from / unit, to: to / unit });
  return {
    ...{ form: isInVectors ? "vectorTiles" : "tiles", bytes, start: (inputStart * bytes) / unit },
    ...{ rows: inUnits(rows), columns: inUnits(columns) },
    down: Math.ceil(rows.extent / side),
    across: Math.ceil(columns.extent / side),
    matrices: outer.reduce((product, { extent }) => product * extent, 1),
    axes: outer.map(inUnits),
  };
}

const isWhole = (bytes: number): boolean => bytes % VECTOR_BYTES === 0;

function words({ dtype, outputDtype, inputStart, output }: Problem, axes: readonly Axis[]): WordsPlan {
  const size = dtypeBytes[outputDtype];
  // The bytes of the places that all axes from each one on reach together.
  const reach = [size];
  for (const { extent, to } of axes.toReversed()) reach.unshift((extent - 1) * to + reach[0]!);
  const isAligned = output.byteOffset % 4 === 0;
  /** Whether steps along these first axes keep the alignment of the output's first word. */
  const isAlignedAlong = (count: number) => isAligned && axes.slice(0, count).every(({ to }) => to % 4 === 0);
  // Elements next to each other along such an axis are in words of their own.
  const isApart = ({ to }: Axis, i: number) => isAlignedAlong(i + 1) || to - reach[i + 1]! + size >= 4;
  const shared = axes.findIndex((axis, i) => !isApart(axis, i));
  const outer = shared < 0 ? axes.length : shared;
  const blocks = axes.slice(0, outer).reduce((product, { extent }) => product * extent, 1);
  const blockBytes = reach[outer]!;
  // A block may begin with the last element of a word.
  const blockWords = Math.ceil((blockBytes + (isAlignedAlong(outer) ? 0 : 4 - size)) / 4);
  const isLine = outer === axes.length - 1 && axes[outer]!.to === size;
  // Even the shortest lines gain: a place in a block is divided for each of its elements.
  const line = isLine ? shareOfLine(blockWords, 4, wordsPerInvocation, SHORT_LINE) : undefined;
  return {
    ...{ form: "words", line, start: inputStart * dtypeBytes[dtype], blocks },
    ...{ blockWords, blockBytes, outer, axes },
    workgroups:
      line === undefined
        ? Math.ceil((blocks * blockWords) / WORKGROUP_SIZE)
        : workgroupsForLines(blocks, line),
  };
}

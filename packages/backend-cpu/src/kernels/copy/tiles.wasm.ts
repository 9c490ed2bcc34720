import { type FunctionBuilder, i8x16, i32, type Local, type Value, v128 } from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { moveOne } from "../memory/index.js";
import { Odometer } from "../vector/index.js";

/** Axes outside of the two that change places. */
export const tileOuterAxes: number = 6;

/** Bytes of a line of the cache: a tile has one of the input in each column, and one of the output in each row. */
export const lineBytes = 64;

type AxisKeys = `${"extent" | "from" | "to"}${number}`;

export type TileTypes = Readonly<
  Record<
    | "input"
    | "output"
    | "rows"
    | "columns"
    | "from"
    | "to"
    | "blockRows"
    | "blockColumns"
    | "blocksAcross"
    | "blocks"
    | "matrices"
    | "matricesPerChunk"
    | AxisKeys,
    "i32"
  >
>;

const parameterTypes = {
  ...{ input: "i32", output: "i32" },
  /** Of the output, whose columns follow one another; rows follow one another in the input. */
  ...{ rows: "i32", columns: "i32" },
  /** Bytes from column to column in the input, and from row to row in the output. */
  ...{ from: "i32", to: "i32" },
  /** What a chunk transposes: the same part of some matrices, in whole tiles. `blocks`: of one matrix. */
  ...{ blockRows: "i32", blockColumns: "i32", blocksAcross: "i32", blocks: "i32" },
  ...{ matrices: "i32", matricesPerChunk: "i32" },
  ...(Object.fromEntries(
    Array.from({ length: tileOuterAxes }, (_, axis) => [
      [`extent${axis}`, "i32"],
      [`from${axis}`, "i32"],
      [`to${axis}`, "i32"],
    ]).flat(),
  ) as Record<AxisKeys, "i32">),
} as const as TileTypes;

/**
 * output[row, column] = input[column, row] for matrices of elements of one size. Whole tiles go through scratch
 * memory, so that lines of the input and the output are used at once and whole: if rows are a power of two
 * apart, lines of neighbouring rows displace one another from the cache.
 */
export function tilesKernel(bytes: 1 | 2 | 4): Kernel<TileTypes> {
  const side = lineBytes / bytes;
  const lanes = 16 / bytes;
  return defineKernel<TileTypes>({
    name: `copy_tiles_${bytes}`,
    parameters: parameterTypes,
    scratchBytes: lineBytes * side,
    emit(f, { parameters, chunk, scratch }) {
      const { rows, columns, from, to, blockRows, blockColumns, blocksAcross, blocks } = parameters;
      const odometer = new Odometer(
        f,
        Array.from({ length: tileOuterAxes }, (_, axis) => ({
          extent: parameters[`extent${axis}`]!,
          steps: [parameters[`from${axis}`]!, parameters[`to${axis}`]!],
        })),
        2,
      );
      const matrix = f.let(i32.mul(i32.divU(chunk, blocks), parameters.matricesPerChunk));
      const matrixEnd = f.let(i32.minU(parameters.matrices, i32.add(matrix, parameters.matricesPerChunk)));
      odometer.seek(f.let(matrix));
      const [offset, outputOffset] = odometer.offsets as [Local<"i32">, Local<"i32">];
      const [input, output] = [f.local("i32"), f.local("i32")];
      const block = f.let(i32.remU(chunk, blocks));
      const firstRow = f.let(i32.mul(i32.divU(block, blocksAcross), blockRows));
      const firstColumn = f.let(i32.mul(i32.remU(block, blocksAcross), blockColumns));
      const endRow = f.let(i32.minU(rows, i32.add(firstRow, blockRows)));
      const endColumn = f.let(i32.minU(columns, i32.add(firstColumn, blockColumns)));

      const emitBlock = () =>
        f.forRange(
          firstColumn,
          endColumn,
          (column) =>
            f.forRange(
              firstRow,
              endRow,
              (row) => {
                const height = f.let(i32.minU(i32.sub(endRow, row), side));
                const width = f.let(i32.minU(i32.sub(endColumn, column), side));
                const at = f.let(i32.add(i32.add(input, i32.mul(column, from)), i32.mul(row, bytes)));
                const out = f.let(i32.add(i32.add(output, i32.mul(row, to)), i32.mul(column, bytes)));
                const isWhole = f.let(i32.and(i32.eq(height, side), i32.eq(width, side)));
                const wholeRows = f.let(i32.and(height, -lanes));
                const wholeColumns = f.let(i32.and(width, -lanes));
                const target = f.let(out);
                const pitch = f.let(to);
                f.if(isWhole, () => {
                  f.set(target, scratch);
                  f.set(pitch, lineBytes);
                });
                f.forRange(
                  0,
                  wholeColumns,
                  (c) =>
                    f.forRange(
                      0,
                      wholeRows,
                      (r) => {
                        const source = f.let(i32.add(i32.add(at, i32.mul(c, from)), i32.mul(r, bytes)));
                        const place = f.let(i32.add(i32.add(target, i32.mul(r, pitch)), i32.mul(c, bytes)));
                        const vectors: Local<"v128">[] = [];
                        for (let i = 0; i < lanes; i++) {
                          vectors.push(f.let(v128.load(source)));
                          f.add(source, from);
                        }
                        for (const vector of transposed(f, vectors, bytes)) {
                          f.store(place, vector);
                          f.add(place, pitch);
                        }
                      },
                      { step: lanes },
                    ),
                  { step: lanes },
                );
                f.if(
                  isWhole,
                  () => {
                    const line = f.let(scratch);
                    const place = f.let(out);
                    f.forRange(0, side, () => {
                      for (let part = 0; part < lineBytes; part += 16)
                        f.store(place, v128.load(line, part), part);
                      f.add(line, lineBytes);
                      f.add(place, to);
                    });
                  },
                  () => {
                    const strip = (
                      columnsFrom: Value<"i32">,
                      rowsFrom: Value<"i32">,
                      columnsTo: Value<"i32">,
                    ) =>
                      f.forRange(columnsFrom, columnsTo, (c) =>
                        f.forRange(rowsFrom, height, (r) => {
                          const source = i32.add(i32.add(at, i32.mul(c, from)), i32.mul(r, bytes));
                          const place = i32.add(i32.add(out, i32.mul(r, to)), i32.mul(c, bytes));
                          moveOne(f, bytes, place, source);
                        }),
                      );
                    strip(i32.const(0), wholeRows, wholeColumns);
                    strip(wholeColumns, i32.const(0), width);
                  },
                );
              },
              { step: side },
            ),
          { step: side },
        );
      f.forLocal(matrix, matrixEnd, () => {
        f.set(input, i32.add(parameters.input, offset));
        f.set(output, i32.add(parameters.output, outputOffset));
        emitBlock();
        odometer.next();
      });
    },
  });
}

/**
 * Transposes a square of as many vectors as a vector has lanes. Each round interleaves the first half of the
 * vectors with the second; after one for each bit of their number, lanes and vectors have changed places.
 */
function transposed(
  f: FunctionBuilder,
  vectors: readonly Local<"v128">[],
  bytes: number,
): readonly Local<"v128">[] {
  const lanes = 16 / bytes;
  const interleave = (first: number): readonly number[] =>
    Array.from({ length: lanes / 2 }, (_, i) => [0, 16].map((side) => side + bytes * (first + i)))
      .flat()
      .flatMap((lane) => Array.from({ length: bytes }, (_, byte) => lane + byte));
  const [low, high] = [interleave(0), interleave(lanes / 2)];
  let current = vectors;
  for (let round = 1; round < lanes; round *= 2)
    current = Array.from({ length: lanes / 2 }, (_, i) => {
      const [a, b] = [current[i]!, current[i + lanes / 2]!];
      return [low, high].map((half) => f.let(i8x16.shuffle(half, a, b)));
    }).flat();
  return current;
}

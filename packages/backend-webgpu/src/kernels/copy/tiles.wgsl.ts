import {
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { findTile, type TileParameter, tileParameters } from "./tile-place.wgsl.js";

/** Words of a line of a tile. */
const LINE = 32;

/** Elements of a tile along either side. */
export function tileSide(bytes: 1 | 2 | 4): number {
  return (LINE * 4) / bytes;
}

/**
 * Transposes matrices through workgroup memory: output[row, column] = input[column, row]. A workgroup reads a square
 * tile in lines of words along the rows, and writes it in lines of words along the columns, each gathered from as many lines
 * as it has elements. Line l keeps its word w at place w ^ (l / elements per word), so that neither way meets a bank of the memory twice.
 *
 * Rows of the output must begin with a word; the rest of the last word stays as it is. The input may lie anywhere.
 * Everything but extents counts bytes. Rows of the table: extent, stride of the input and of the output.
 */
export function tilesProgram(bytes: 1 | 2 | 4): Program<"source" | "output", TileParameter> {
  const perWord = 4 / bytes;
  const side = tileSide(bytes);
  /** Lines of the tile, and words of the output, that each invocation takes. */
  const rounds = (side * LINE) / WORKGROUP_SIZE;
  const linesPerRound = WORKGROUP_SIZE / LINE;
  const swizzled = (line: string, word: string) =>
    `tile[${line} * ${LINE}u + (${word} ^ ((${line} / ${perWord}u) & ${LINE - 1}u))]`;
  const bits = 8 * bytes;
  const gathered =
    perWord === 1
      ? wgsl`let value = ${swizzled("w", "q")};`
      : wgsl`let shift = (q % ${perWord}u) * ${bits}u;
      var value = 0u;
      for (var i = 0u; i < ${perWord}u; i++) {
        let line = w * ${perWord}u + i;
        let word = ${swizzled("line", `(q / ${perWord}u)`)};
        value |= ((word >> shift) & ${bits === 16 ? "0xffffu" : "0xffu"}) << (${bits}u * i);
      }`;
  return program({
    name: `copy_tiles_${bytes}`,
    bindings: { source: input("byte"), output: output("byte") },
    parameters: tileParameters,
    light: true,
    body: wgsl`
${workgroupIndex}
var<workgroup> tile: array<u32, ${side * LINE}>;

/// Four bytes from any place. What lies past the end of the buffer is not used.
fn word_at(at: u32) -> u32 {
  let word = source[at >> 2u];
  ${
    bytes === 4
      ? "return word;"
      : wgsl`let shift = 8u * (at & 3u);
  if (shift == 0u) { return word; }
  let next = min((at >> 2u) + 1u, arrayLength(&source) - 1u);
  return (word >> shift) | (source[next] << (32u - shift));`
  }
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
${findTile(side)}
  let w = lane % ${LINE}u;
  let line = lane / ${LINE}u;
  {
    let row = min(first_row + w * ${perWord}u, parameters.rows - 1u);
    let at = first.x + row * ${bytes}u;
    ${lines(
      rounds,
      (i) =>
        `let word${i} = word_at(at + min(first_column + line + ${i * linesPerRound}u, parameters.columns - 1u) * parameters.column_step);`,
    )}
    ${lines(rounds, (i) => `${swizzled(`(line + ${i * linesPerRound}u)`, "w")} = word${i};`)}
  }
  workgroupBarrier();
  let column = first_column + w * ${perWord}u;
  if (column >= parameters.columns) { return; }
  let left = parameters.columns - column;
  for (var q = line; q < ${side}u; q += ${linesPerRound}u) {
    let row = first_row + q;
    if (row < parameters.rows) {
      ${gathered}
      let place = (first.y + row * parameters.row_step + column * ${bytes}u) >> 2u;
      ${
        perWord === 1
          ? "output[place] = value;"
          : wgsl`if (left >= ${perWord}u) {
        output[place] = value;
      } else {
        let kept = 0xffffffffu << (${bits}u * left);
        output[place] = (value & ~kept) | (output[place] & kept);
      }`
      }
    }
  }
}
`,
  });
}

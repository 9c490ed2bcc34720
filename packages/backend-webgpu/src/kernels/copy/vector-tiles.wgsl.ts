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

/** Elements of a tile along either side: as many as 16 KiB hold, or fewer, if one vector for each invocation is less. */
const sides = { 1: 128, 2: 64, 4: 64 } as const;

export function vectorTileSide(bytes: 1 | 2 | 4): number {
  return sides[bytes];
}

/**
 * Transposes matrices through workgroup memory, as `tilesProgram` does, in vectors of 16 bytes on both ways. A workgroup
 * reads a square tile in lines along the rows. Each invocation then takes one word of as many lines as a vector has
 * elements, and writes a vector of each of the rows that the word has an element of.
 *
 * Line l keeps its word w at place w ^ (l / elements per vector * STEP), so that the words of an output row lie in
 * different banks of the memory. An H200 moves f32 at 0.85 of a copy this way, and at 0.70 by words.
 *
 * Everything but rows and columns counts vectors. Rows of the table: extent, stride of the input and of the output.
 */
export function vectorTilesProgram(bytes: 1 | 2 | 4): Program<"source" | "output", TileParameter> {
  const perWord = 4 / bytes;
  const perVector = 16 / bytes;
  const side = sides[bytes];
  const lineWords = side / perWord;
  const lineVectors = side / perVector;
  const step = 32 / lineVectors;
  const loads = (side * lineVectors) / WORKGROUP_SIZE;
  const linesPerLoad = WORKGROUP_SIZE / lineVectors;
  const stores = (lineWords * lineVectors) / WORKGROUP_SIZE;
  const wordsPerStore = WORKGROUP_SIZE / lineVectors;
  const components = ["x", "y", "z", "w"] as const;
  /** Component c of the vector of the row that element j of each word belongs to. */
  const component = (c: number, j: number) =>
    Array.from({ length: perWord }, (_, i) => elementOf(`word${c * perWord + i}`, bytes, j, i)).join(" | ");
  return program({
    name: `copy_vector_tiles_${bytes}`,
    bindings: { source: input("vec4u"), output: output("vec4u") },
    parameters: tileParameters,
    light: true,
    body: wgsl`
${workgroupIndex}
var<workgroup> tile: array<u32, ${side * lineWords}>;

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
${findTile(side)}
  let part = lane % ${lineVectors}u;
  let line = lane / ${lineVectors}u;
  {
    let at = first.x + min(first_row / ${perVector}u + part, parameters.rows / ${perVector}u - 1u);
    ${lines(
      loads,
      (i) =>
        `let vector${i} = source[at + min(first_column + line + ${i * linesPerLoad}u, parameters.columns - 1u) * parameters.column_step];`,
    )}
    ${lines(loads, (i) => {
      const row = `(line + ${i * linesPerLoad}u)`;
      return components
        .map(
          (name, c) =>
            `tile[${row} * ${lineWords}u + ((4u * part + ${c}u) ^ (${row} / ${perVector}u * ${step}u))] = vector${i}.${name};`,
        )
        .join("\n    ");
    })}
  }
  workgroupBarrier();
  if (first_column + part * ${perVector}u >= parameters.columns) { return; }
  let to = first.y + first_column / ${perVector}u + part;
  ${lines(stores, (s) => {
    const word = `(line + ${s * wordsPerStore}u)`;
    return wgsl`{
    let row = first_row + ${word} * ${perWord}u;
    let words = part * ${perVector * lineWords}u + (${word} ^ (part * ${step}u));
    ${lines(perVector, (k) => `let word${k} = tile[words + ${k * lineWords}u];`)}
    ${lines(
      perWord,
      (j) =>
        `if (row + ${j}u < parameters.rows) { output[to + (row + ${j}u) * parameters.row_step] = vec4u(${components.map((_, c) => component(c, j)).join(", ")}); }`,
    )}
  }`;
  })}
}
`,
  });
}

/** Element `from` of a word as element `to` of another one. */
function elementOf(word: string, bytes: 1 | 2 | 4, from: number, to: number): string {
  if (bytes === 4) return word;
  const bits = 8 * bytes;
  return `(((${word} >> ${bits * from}u) & ${bits === 16 ? "0xffffu" : "0xffu"}) << ${bits * to}u)`;
}

import { type ConvolutionTile, convolutionTransforms } from "@backplane/core";
import {
  input,
  linearBuiltins,
  memoized,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { storesInLoops } from "../epilogue.wgsl.js";
import { type ConvResult, resultName, resultText } from "./results.wgsl.js";

/*
 * Convolution by transforms, A^T ((G g G^T) * (B^T d B)) A; see `ConvolutionTransform` in core. Transformed tiles
 * lie in scratch as one matrix for each of their places, so that the sums over channels are products of matrices:
 * filters as channels x outputs, inputs as channels x tiles, results as outputs x tiles. In each of the three programs
 * here one invocation transforms one tile of one channel; neighbours have neighbouring elements of the matrices.
 */

type Matrix = readonly (readonly number[])[];

/** Statements that define `to`_i_j, the elements of M x M^T, where `from`_i_j are those of x. */
function transformText(matrix: Matrix, from: string, to: string): string {
  const [rows, size] = [matrix.length, matrix[0]!.length];
  const middle = `${from}_${to}`;
  const statements: string[] = [];
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < size; j++)
      statements.push(`let ${middle}_${i}_${j} = ${sum(matrix[i]!, (k) => `${from}_${k}_${j}`)};`);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < rows; j++)
      statements.push(`let ${to}_${i}_${j} = ${sum(matrix[j]!, (k) => `${middle}_${i}_${k}`)};`);
  return statements.map((statement) => `  ${statement}`).join("\n");
}

function sum(factors: readonly number[], term: (k: number) => string): string {
  const terms = factors.flatMap((factor, k) => {
    if (factor === 0) return [];
    if (factor === 1) return [term(k)];
    return [factor === -1 ? `-${term(k)}` : `${factor} * ${term(k)}`];
  });
  return terms.join(" + ");
}

/** One line for each element of a square. */
function eachOf(rows: number, columns: number, line: (i: number, j: number) => string): string {
  return Array.from({ length: rows * columns }, (_, at) => line(Math.floor(at / columns), at % columns)).join(
    "\n",
  );
}

export const filterTransformProgram: (tile: ConvolutionTile) => Program = memoized(
  (tile: ConvolutionTile): Program => {
    const { filter: matrix } = convolutionTransforms[tile];
    const places = matrix.length;
    return program({
      name: `conv2d_filter_${tile}`,
      bindings: {
        filter_: input("f32"), // outputs x channels x 3 x 3
        transformed: output("f32"), // places^2 x channels x outputs
      },
      parameters: { channels: "u32", outputs: "u32" },
      body: wgsl`${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let count = parameters.channels * parameters.outputs;
  if (index >= count) { return; }
  let channel = index / parameters.outputs;
  let place = index % parameters.outputs * parameters.channels + channel;
  let at = parameters.filter__offset + place * 9u;
${eachOf(3, 3, (i, j) => `  let g_${i}_${j} = filter_[at + ${3 * i + j}u];`)}
${transformText(matrix, "g", "u")}
  let to = parameters.transformed_offset + index;
${eachOf(places, places, (i, j) => `  transformed[to + ${places * i + j}u * count] = u_${i}_${j};`)}
}
`,
    });
  },
);

/** Where tiles are: `tile` is the index among the tiles of all images, `outputs` the side of one. */
const tilePlaces = (outputs: number): string => wgsl`
struct Place { image: u32, y: u32, x: u32 }

/// The first output of a tile.
fn place_of(tile: u32) -> Place {
  let in_image = parameters.tiles_y * parameters.tiles_x;
  let rest = tile % in_image;
  return Place(tile / in_image, rest / parameters.tiles_x * ${outputs}u, rest % parameters.tiles_x * ${outputs}u);
}
`;

export const inputTransformProgram: (tile: ConvolutionTile) => Program = memoized(
  (tile: ConvolutionTile): Program => {
    const { input: matrix, outputs } = convolutionTransforms[tile];
    const places = matrix.length;
    return program({
      name: `conv2d_input_${tile}`,
      bindings: {
        input: input("f32"), // batch x channels x height x width
        transformed: output("f32"), // places^2 x channels x pitch
      },
      parameters: {
        ...{ channels: "u32", height: "u32", width: "u32", top: "i32", left: "i32" },
        ...{ tiles_y: "u32", tiles_x: "u32", first: "u32", tiles: "u32", pitch: "u32" },
      },
      body: wgsl`${workgroupIndex}
${tilePlaces(outputs)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let channel = index / parameters.tiles;
  if (channel >= parameters.channels) { return; }
  let tile = index % parameters.tiles;
  let place = place_of(parameters.first + tile);
  // Coordinates above or left of the image are large as unsigned numbers.
  let top = u32(i32(place.y) - parameters.top);
  let left = u32(i32(place.x) - parameters.left);
  let plane = parameters.input_offset
    + (place.image * parameters.channels + channel) * parameters.height * parameters.width;
${Array.from({ length: places }, (_, j) => `  let inside_${j} = left + ${j}u < parameters.width;`).join("\n")}
${Array.from({ length: places }, (_, i) => rowText(places, i)).join("\n")}
${transformText(matrix, "d", "v")}
  let count = parameters.channels * parameters.pitch;
  let to = parameters.transformed_offset + channel * parameters.pitch + tile;
${eachOf(places, places, (i, j) => `  transformed[to + ${places * i + j}u * count] = v_${i}_${j};`)}
}
`,
    });
  },
);

/** Reads a row of inputs under a tile: zeros outside of the image. */
function rowText(places: number, i: number): string {
  const columns = Array.from({ length: places }, (_, j) => j);
  return `${columns.map((j) => `  var d_${i}_${j} = 0.0;`).join("\n")}
  if (top + ${i}u < parameters.height) {
    let row = plane + (top + ${i}u) * parameters.width + left;
${columns.map((j) => `    if (inside_${j}) { d_${i}_${j} = input[row + ${j}u]; }`).join("\n")}
  }`;
}

export interface OutputTransform extends ConvResult {
  readonly tile: ConvolutionTile;
}

/** `vectorOutput`: a row of a tile is a whole, aligned quad. */
export const outputTransformProgram: (form: OutputTransform) => Program = memoized(
  (form: OutputTransform): Program => {
    const { output: matrix, outputs } = convolutionTransforms[form.tile];
    const places = matrix[0]!.length;
    const result = resultText(form);
    return program({
      name: `conv2d_output_${form.tile}${resultName(form)}`,
      bindings: { sums: input("f32"), ...result.bindings }, // places^2 x channels x pitch
      parameters: {
        ...{ out_height: "u32", out_width: "u32", groups: "u32", group_outputs: "u32" },
        ...{ tiles_y: "u32", tiles_x: "u32", first: "u32", tiles: "u32", pitch: "u32" },
      },
      body: wgsl`${result.declarations}
${tilePlaces(outputs)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let channel = index / parameters.tiles;
  if (channel >= parameters.group_outputs) { return; }
  let tile = index % parameters.tiles;
  let count = parameters.group_outputs * parameters.pitch;
  let at = parameters.sums_offset + channel * parameters.pitch + tile;
${eachOf(places, places, (i, j) => `  let m_${i}_${j} = sums[at + ${places * i + j}u * count];`)}
${transformText(matrix, "m", "y")}
  let place = place_of(parameters.first + tile);
  let pixel = (place.image * parameters.out_height + place.y) * parameters.out_width + place.x;
${form.vectorOutput ? quadStores(outputs) : singleStores(form, outputs)}
}
`,
    });
  },
);

function quadStores(outputs: number): string {
  return Array.from({ length: outputs }, (_, i) => {
    const quad = Array.from({ length: outputs }, (_, j) => `y_${i}_${j}`).join(", ");
    return `  if (place.y + ${i}u < parameters.out_height) {
    store_four(channel, output_place(pixel + ${i}u * parameters.out_width), vec4f(${quad}));
  }`;
  }).join("\n");
}

function singleStores(form: OutputTransform, outputs: number): string {
  const store = (y: string, x: string, value: string) =>
    `if (place.y + ${y} < parameters.out_height && place.x + ${x} < parameters.out_width) {
    store(channel, output_place(pixel + ${y} * parameters.out_width + ${x}), ${value});
  }`;
  if (!storesInLoops(form))
    return eachOf(outputs, outputs, (i, j) => `  ${store(`${i}u`, `${j}u`, `y_${i}_${j}`)}`);
  return `  let results = array<f32, ${outputs * outputs}>(${eachOf(outputs, outputs, (i, j) => `y_${i}_${j},`)});
  for (var i = 0u; i < ${outputs * outputs}u; i++) {
    let y = i / ${outputs}u;
    let x = i % ${outputs}u;
    ${store("y", "x", "results[i]")}
  }`;
}

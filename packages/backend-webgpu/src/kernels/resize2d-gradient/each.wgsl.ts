import type { FloatType, Resize2dKind } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { type GradientTile, gradientParameters, gradientWriter, spotFunction } from "../images/index.js";
import { axisParameters } from "../resize2d/index.js";
import { resultsFunctions, resultsParameters } from "./results.wgsl.js";

/** The properties of one generated kernel; everything else is a parameter. */
export interface EachTile extends GradientTile {
  readonly kind: Resize2dKind;
  readonly dtype: FloatType;
  /** See `dividedFunction` of resize2d. */
  readonly byProduct: boolean;
}

type Parameter =
  | keyof typeof axisParameters
  | keyof typeof resultsParameters
  | keyof typeof gradientParameters;

/**
 * One element of the input for each invocation, or those that share a word, or four neighbouring channels. It adds up the
 * gradients of the results that are made of the element, row by row, and takes any problem. Coordinates are those of whole
 * images; the output has `rows` and `columns` of each. Inner counts loads.
 */
export function eachProgram(tile: EachTile): Program<"source" | "output", Parameter> {
  const { kind, dtype, result, vector, byProduct, continues } = tile;
  const from = floatLayouts[dtype];
  const to = floatLayouts[result];
  const isQuad = vector === 4;
  const value = isQuad ? "vec4f" : "f32";
  const weighted = (sum: string, factor: string) => (kind === "nearest" ? sum : `${factor} * ${sum}`);
  return program({
    name: `resize_gradient_${kind}_${dtype}_${result}_${vector}${byProduct ? "" : "_divided"}${continues ? "_more" : ""}`,
    bindings: {
      source: input(isQuad ? from.quad : from.single),
      output: output(isQuad ? to.quad : to.single),
    },
    parameters: { ...axisParameters, ...resultsParameters, ...gradientParameters },
    body: wgsl`
${workgroupIndex}
${spotFunction}
${from.perWord === 2 ? from.functions : to.functions}
${resultsFunctions(kind, byProduct)}

fn load(at: u32) -> ${value} {
  ${isQuad ? `let block = source[at]; return ${from.unpacked("block")};` : `return ${from.load("source", "at")};`}
}

fn sum_of(plane: u32, row: u32, column: u32, channel: u32, before: ${value}) -> ${value} {
  let y = i32(row) + parameters.first_row;
  let x = i32(column) + parameters.first_column;
  let over_y = rows_of(y);
  let over_x = columns_of(x);
  var sum = before;
  for (var v = over_y.x; v < over_y.y; v++) {
    let line = (i32(plane) * parameters.result_rows + v - parameters.result_row) * parameters.result_columns;
    var part = ${value}(0.0);
    for (var u = over_x.x; u < over_x.y; u++) {
      let value = load(parameters.source_offset + u32(line + u - parameters.result_column) * parameters.inner + channel);
      part += ${weighted("value", "column_factor(u, x)")};
    }
    sum += ${weighted("part", "row_factor(v, y)")};
  }
  return sum;
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
${gradientWriter(tile)}
}
`,
  });
}

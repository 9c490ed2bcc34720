import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  output,
  type ParameterType,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";

/**
 * The source of the values of one input:
 * - `contiguous`: element i of its own region;
 * - `output`: element i of the output, which is then overwritten;
 * - `strided`: an element found from i by the table of axes;
 * - `repeated`: as `strided`, in wide kernels, for an input that repeats along the innermost axis;
 * - `scalar`: a parameter.
 */
export type Source = "contiguous" | "output" | "strided" | "repeated" | "scalar";

/** The properties of one generated kernel; everything else is a parameter. */
export interface ElementwiseTile {
  /** The first part of the program's name, such as `unary_exp`. */
  readonly name: string;
  readonly dtype: FloatType;
  /** One per argument of `apply`: of `x`, or of `a` and `b`. */
  readonly sources: readonly Source[];
  /**
   * Whether an invocation takes 16 bytes of output, or 4 bytes (one f32, or the two f16 that share a word).
   * Wide kernels need regions that start at a multiple of 16 bytes, except of repeated inputs. With
   * strided or repeated inputs, the table of axes then counts vectors along the innermost axis, and so do
   * the strides of strided inputs.
   */
  readonly wide: boolean;
  /** Rows of the table of axes; 0 without strided inputs. */
  readonly axes: number;
}

/** The argument names of `apply`, which are also the names of the bindings. */
export function inputNames(count: number): readonly string[] {
  return count === 1 ? ["x"] : ["a", "b"];
}

/** A program that writes output[i] = apply(inputs[i]...) for i < n; `apply` is WGSL text. */
export function elementwise(tile: ElementwiseTile, apply: string): Program {
  const { dtype, wide, sources, axes } = tile;
  const { single, block, functions } = floatLayouts[dtype];
  const names = inputNames(sources.length);
  const bindings: Record<string, Storage> = {};
  const parameters: Record<string, ParameterType> = { n: "u32" };
  for (const [i, source] of sources.entries()) {
    const name = names[i]!;
    if (source === "scalar") parameters[`${name}_scalar`] = "f32";
    else if (source !== "output") bindings[name] = input(wide && source !== "repeated" ? block : single);
  }
  bindings.output = output(wide ? block : single);
  if (axes > 0) Object.assign(parameters, { rank: "u32", axes: { rows: axes } });

  const main = bodies[dtype][wide ? "wide" : "narrow"];
  return program({
    name: [tile.name, dtype, wide ? "wide" : "narrow", ...sources, ...(axes > 0 ? [axes] : [])].join("_"),
    bindings,
    parameters,
    body: [workgroupIndex, functions, apply, axes > 0 ? stridedPlaces : "", main(names, sources)].join("\n"),
  });
}

/** From the index of an output element to its places in both inputs. Row: extent, stride in a, stride in b. */
const stridedPlaces = wgsl`
fn strided_places(index: u32) -> vec2<u32> {
  var places = vec2<u32>(0u);
  var rest = index;
  for (var axis = parameters.rank - 1u; axis > 0u; axis--) {
    let row = parameters.axes[axis];
    let next = rest / row.x;
    places += (rest - next * row.x) * row.yz;
    rest = next;
  }
  return places + rest * parameters.axes[0].yz;
}
`;

const firstLine = wgsl`
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
`;

type Body = (names: readonly string[], sources: readonly Source[]) => string;

/** One f32 per invocation. */
const oneSingle: Body = (names, sources) => {
  const values = sources.map((source, i) => {
    const name = names[i]!;
    if (source === "scalar") return `parameters.${name}_scalar`;
    if (source === "output") return "output[parameters.output_offset + index]";
    const place = source === "strided" ? `places.${"xy"[i]}` : "index";
    return `${name}[parameters.${name}_offset + ${place}]`;
  });
  return wgsl`${firstLine}
  if (index >= parameters.n) { return; }
  ${sources.includes("strided") ? "let places = strided_places(index);" : ""}
  output[parameters.output_offset + index] = apply(${values.join(", ")});
}
`;
};

/** One word per invocation: the two f16 that share it, one of which may lie outside the output. */
const halfPair: Body = (names, sources) => {
  const values = sources.map((source, i) => {
    const name = names[i]!;
    if (source === "scalar") return `parameters.${name}_scalar`;
    if (source === "output") return "half_at(old, side)";
    const place = source === "strided" ? `places.${"xy"[i]}` : "element";
    return `half_at(${name}[(parameters.${name}_offset + ${place}) >> 1u], parameters.${name}_offset + ${place})`;
  });
  return wgsl`${firstLine}
  let word = (parameters.output_offset >> 1u) + index;
  if (2u * word >= parameters.output_offset + parameters.n) { return; }
  let old = output[word];
  var new_word = old;
  for (var side = 0u; side < 2u; side++) {
    // Wraps round to a large number in front of the region.
    let element = 2u * word + side - parameters.output_offset;
    if (element >= parameters.n) { continue; }
    ${sources.includes("strided") ? "let places = strided_places(element);" : ""}
    new_word = with_half(new_word, side, apply(${values.join(", ")}));
  }
  output[word] = new_word;
}
`;
};

/** The loads of a wide kernel for each input: a vector, or one number that is repeated. */
function wideLoads(names: readonly string[], sources: readonly Source[], dtype: FloatType): string {
  const places = sources.some((source) => source === "strided" || source === "repeated");
  const loads = sources.map((source, i) => {
    const name = names[i]!;
    const place = `places.${"xy"[i]}`;
    if (source === "scalar") return `let ${name}_value = parameters.${name}_scalar;`;
    if (source === "repeated")
      return `let ${name}_place = parameters.${name}_offset + ${place};\n  let ${name}_value = ${floatLayouts[dtype].load(name, `${name}_place`)};`;
    const [from, at] =
      source === "output" ? ["output", "index"] : [name, source === "strided" ? place : "index"];
    return `let ${name}_block = ${from}[parameters.${from}_offset + ${at}];`;
  });
  return [places ? "let places = strided_places(index);" : "", ...loads].join("\n  ");
}

function isVector(source: Source): boolean {
  return source !== "scalar" && source !== "repeated";
}

/** Four f32 per invocation. */
const wideSingles: Body = (names, sources) => {
  const results = [..."xyzw"].map((component) => {
    const values = sources.map(
      (source, i) => `${names[i]!}_${isVector(source) ? `block.${component}` : "value"}`,
    );
    return `apply(${values.join(", ")})`;
  });
  return wgsl`${firstLine}
  if (4u * index >= parameters.n) { return; }
  ${wideLoads(names, sources, "f32")}
  let result = vec4<f32>(
    ${results.join(",\n    ")});
  let left = parameters.n - 4u * index;
  if (left >= 4u) {
    output[parameters.output_offset + index] = result;
    return;
  }
  for (var i = 0u; i < left; i++) { output[parameters.output_offset + index][i] = result[i]; }
}
`;
};

/** Eight f16, that is four words, per invocation. */
const wideHalves: Body = (names, sources) => {
  const results = [..."xyzw"].map((component) => {
    const values = (side: "x" | "y") =>
      sources.map((source, i) =>
        isVector(source) ? `unpack2x16float(${names[i]!}_block.${component}).${side}` : `${names[i]!}_value`,
      );
    return `pack_halves(apply(${values("x").join(", ")}), apply(${values("y").join(", ")}))`;
  });
  return wgsl`${firstLine}
  if (8u * index >= parameters.n) { return; }
  ${wideLoads(names, sources, "f16")}
  let result = vec4<u32>(
    ${results.join(",\n    ")});
  let left = parameters.n - 8u * index;
  if (left >= 8u) {
    output[parameters.output_offset + index] = result;
    return;
  }
  for (var i = 0u; 2u * i < left; i++) {
    let keep = select(0u, 0xffff0000u, 2u * i + 1u == left);
    let old = output[parameters.output_offset + index][i];
    output[parameters.output_offset + index][i] = (old & keep) | (result[i] & ~keep);
  }
}
`;
};

const bodies: Readonly<Record<FloatType, Readonly<Record<"narrow" | "wide", Body>>>> = {
  f32: { narrow: oneSingle, wide: wideSingles },
  f16: { narrow: halfPair, wide: wideHalves },
};

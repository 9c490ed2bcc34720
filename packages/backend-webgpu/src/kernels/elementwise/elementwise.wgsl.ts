import {
  type ComputedType,
  type ElementLayout,
  type ElementType,
  input,
  layouts,
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
  /** Of the inputs. */
  readonly dtype: ComputedType | "u8";
  readonly outputType: OutputType;
  /** One per argument of `apply`: of `x`, or of `a` and `b`. */
  readonly sources: readonly Source[];
  /**
   * Whether an invocation takes a vector of output (see `vectorBytes`), or 4 bytes: one number of that size, or all
   * elements that share a word. Wide kernels need regions that start at a multiple of 16 bytes, except of repeated
   * inputs. With strided or repeated inputs, the table of axes then counts vectors along the innermost axis, and so
   * do the strides of strided inputs.
   */
  readonly wide: boolean;
  /** Rows of the table of axes; 0 without strided inputs. */
  readonly axes: number;
}

/** The types of results: those of arithmetic, and bytes, which hold truth values. */
export type OutputType = ComputedType | "u8";

/** What the kernels ask of the layout of inputs. */
type InputLayout = Pick<
  ElementLayout,
  "value" | "single" | "quad" | "block" | "functions" | "load" | "unpacked"
>;

/** Of truth values, too, which are bytes: a word shows four. */
export const inputLayouts: Readonly<Record<ComputedType | "u8", InputLayout>> = {
  ...layouts,
  u8: {
    ...{ value: "u32", single: "byte", quad: "u32", block: "u32", functions: "" },
    load: (binding, index) => `((${binding}[${index} >> 2u] >> (8u * (${index} & 3u))) & 0xffu)`,
    unpacked: (quad) => `((vec4u(${quad}) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu))`,
  },
};

/** The argument names of `apply`, which are also the names of the bindings. */
export function inputNames(count: number): readonly string[] {
  return count === 1 ? ["x"] : ["a", "b"];
}

/** Bytes of output that one invocation of a wide kernel takes. A multiple of 4, which a narrow kernel takes. */
export const vectorBytes: Readonly<Record<OutputType, number>> = {
  f32: 16,
  f16: 16,
  i32: 16,
  u32: 16,
  u8: 4,
};

/**
 * A program that writes output[i] = apply(inputs[i]...) for i < n. `apply` is WGSL text, from values to a value; for
 * bytes, to u32.
 */
export function elementwise(tile: ElementwiseTile, apply: string): Program {
  const { dtype, wide, sources, axes } = tile;
  const layout = inputLayouts[dtype];
  const form = forms[tile.outputType][wide ? "wide" : "narrow"];
  const names = inputNames(sources.length);
  const bindings: Record<string, Storage> = {};
  const parameters: Record<string, ParameterType> = { n: "u32" };
  for (const [i, source] of sources.entries()) {
    const name = names[i]!;
    if (source === "scalar") parameters[`${name}_scalar`] = layout.value;
    else if (source !== "output")
      bindings[name] = input(layout[source === "repeated" ? "single" : form.inputs]);
  }
  bindings.output = output(form.output);
  if (axes > 0) Object.assign(parameters, { rank: "u32", axes: { rows: axes } });

  return program({
    name: [tile.name, dtype, wide ? "wide" : "narrow", ...sources, ...(axes > 0 ? [axes] : [])].join("_"),
    bindings,
    parameters,
    body: [
      workgroupIndex,
      layout.functions,
      apply,
      axes > 0 ? stridedPlaces : "",
      form.main(names, sources, layout),
    ].join("\n"),
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

type Main = (names: readonly string[], sources: readonly Source[], layout: InputLayout) => string;

/** One number of 32 bits per invocation. */
const oneSingle: Main = (names, sources) => {
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
const halfPair: Main = (names, sources) => {
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

/** One word per invocation: the four bytes that share it, some of which may lie outside the output. */
const fourBytes: Main = (names, sources, { load }) => {
  const values = sources.map((source, i) => {
    const name = names[i]!;
    if (source === "scalar") return `parameters.${name}_scalar`;
    if (source === "output") return "((output[word] >> (8u * i)) & 0xffu)";
    const place = source === "strided" ? `places.${"xy"[i]}` : "element";
    return load(name, `(parameters.${name}_offset + ${place})`);
  });
  return wgsl`${firstLine}
  let word = (parameters.output_offset >> 2u) + index;
  if (4u * word >= parameters.output_offset + parameters.n) { return; }
  var new_word = 0u;
  var keep = 0u;
  for (var i = 0u; i < 4u; i++) {
    // Wraps round to a large number in front of the region.
    let element = 4u * word + i - parameters.output_offset;
    if (element >= parameters.n) {
      keep |= 0xffu << (8u * i);
      continue;
    }
    ${sources.includes("strided") ? "let places = strided_places(element);" : ""}
    new_word |= apply(${values.join(", ")}) << (8u * i);
  }
  if (keep != 0u) { new_word |= output[word] & keep; }
  output[word] = new_word;
}
`;
};

/** The loads of a wide kernel for each input: a vector, or one number that is repeated. */
function wideLoads(
  names: readonly string[],
  sources: readonly Source[],
  { load }: InputLayout,
  outputIndex = "parameters.output_offset + index",
): string {
  const places = sources.some((source) => source === "strided" || source === "repeated");
  const loads = sources.map((source, i) => {
    const name = names[i]!;
    const place = `places.${"xy"[i]}`;
    if (source === "scalar") return `let ${name}_value = parameters.${name}_scalar;`;
    if (source === "repeated")
      return `let ${name}_place = parameters.${name}_offset + ${place};\n  let ${name}_value = ${load(name, `${name}_place`)};`;
    if (source === "output") return `let ${name}_block = output[${outputIndex}];`;
    return `let ${name}_block = ${name}[parameters.${name}_offset + ${source === "strided" ? place : "index"}];`;
  });
  return [places ? "let places = strided_places(index);" : "", ...loads].join("\n  ");
}

function isVector(source: Source): boolean {
  return source !== "scalar" && source !== "repeated";
}

/** Four numbers of 32 bits per invocation. */
const wideSingles: Main = (names, sources, layout) => {
  const results = [..."xyzw"].map((component) => {
    const values = sources.map(
      (source, i) => `${names[i]!}_${isVector(source) ? `block.${component}` : "value"}`,
    );
    return `apply(${values.join(", ")})`;
  });
  return wgsl`${firstLine}
  if (4u * index >= parameters.n) { return; }
  ${wideLoads(names, sources, layout)}
  let result = vec4<${layout.value}>(
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
const wideHalves: Main = (names, sources, layout) => {
  const results = [..."xyzw"].map((component) => {
    const values = (side: "x" | "y") =>
      sources.map((source, i) =>
        isVector(source) ? `unpack2x16float(${names[i]!}_block.${component}).${side}` : `${names[i]!}_value`,
      );
    return `pack_halves(apply(${values("x").join(", ")}), apply(${values("y").join(", ")}))`;
  });
  return wgsl`${firstLine}
  if (8u * index >= parameters.n) { return; }
  ${wideLoads(names, sources, layout)}
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

/** Four bytes, that is one word, per invocation. */
const wideBytes: Main = (names, sources, layout) => {
  const results = [..."xyzw"].map((component, i) => {
    const values = sources.map((source, input) => {
      const name = names[input]!;
      return isVector(source) ? `${name}_quad.${component}` : `${name}_value`;
    });
    return `(apply(${values.join(", ")}) << ${8 * i}u)`;
  });
  const quads = names
    .filter((_, input) => isVector(sources[input]!))
    .map((name) => `let ${name}_quad = ${layout.unpacked(`${name}_block`)};`);
  return wgsl`${firstLine}
  if (4u * index >= parameters.n) { return; }
  let word = (parameters.output_offset >> 2u) + index;
  ${wideLoads(names, sources, layout, "word")}
  ${quads.join("\n  ")}
  var result = ${results.join("\n    | ")};
  let left = parameters.n - 4u * index;
  if (left < 4u) {
    let keep = 0xffffffffu << (8u * left);
    result = (result & ~keep) | (output[word] & keep);
  }
  output[word] = result;
}
`;
};

/** How results of one type are written, narrow or wide. */
interface Form {
  readonly output: ElementType;
  /** What bindings of inputs show, unless they are repeated. */
  readonly inputs: "single" | "quad" | "block";
  readonly main: Main;
}

type Forms = Readonly<Record<"narrow" | "wide", Form>>;

/** Of results that have the inputs' layout. */
function alike({ single, block }: ElementLayout, narrow: Main, wide: Main): Forms {
  return {
    narrow: { output: single, inputs: "single", main: narrow },
    wide: { output: block, inputs: "block", main: wide },
  };
}

const forms: Readonly<Record<OutputType, Forms>> = {
  f32: alike(layouts.f32, oneSingle, wideSingles),
  f16: alike(layouts.f16, halfPair, wideHalves),
  i32: alike(layouts.i32, oneSingle, wideSingles),
  u32: alike(layouts.u32, oneSingle, wideSingles),
  u8: {
    narrow: { output: "byte", inputs: "single", main: fourBytes },
    wide: { output: "byte", inputs: "quad", main: wideBytes },
  },
};

import type { FloatType } from "@backplane/core";
import { floatLayouts, input, output, type Storage, wgsl, workgroupIndex } from "../../program/index.js";
import { activated, activationText, type Epilogue } from "../epilogue.wgsl.js";

/** The place of a kernel's results, and the operations on them; sums of parts have no epilogue. */
export interface ConvResult extends Epilogue {
  readonly dtype: FloatType;
  readonly bias: boolean;
  /**
   * `output`: into the output, which is f32 or `vectorOutput`. `scratch`: f32 results elsewhere, in the order
   * of the output, because f16 is rounded and packed afterwards, or because the sums are parts.
   */
  readonly target: "output" | "scratch";
  /**
   * Every run of four pixels that starts at a multiple of four lies in one image and is aligned to four
   * elements. Only for kernels that write nothing but quads.
   */
  readonly vectorOutput: boolean;
}

/** The element type of the results where a kernel writes them. */
function storedType({ dtype, target }: ConvResult): FloatType {
  return target === "output" ? dtype : "f32";
}

/** How results differ in the name of a program. */
export function resultName(form: ConvResult): string {
  const { dtype, bias, activation, vectorOutput } = form;
  const place = `${storedType(form) === dtype ? "" : "_scratch"}${vectorOutput ? "_o4" : ""}`;
  return `${bias ? "_bias" : ""}${place}${activation === undefined ? "" : `_${activation}`}`;
}

/** Bindings of bias and results and the functions that write them. */
export function resultText(form: ConvResult): {
  bindings: Record<string, Storage>;
  declarations: string;
} {
  const stored = storedType(form);
  const { single, quad, perWord } = floatLayouts[stored];
  if (perWord > 1 && !form.vectorOutput)
    throw new RangeError("words of several elements are written by quads");
  return {
    bindings: {
      ...(form.bias ? { bias: input(floatLayouts[form.dtype].single) } : {}), // groups * group_outputs
      output: output(form.vectorOutput ? quad : single), // batch x groups * group_outputs x out_height x out_width
    },
    declarations: wgsl`
${workgroupIndex}
${floatLayouts[form.dtype].functions}
/// Index of the result of a pixel in channel 0.
fn output_place(pixel: u32) -> u32 {
  let plane = parameters.out_height * parameters.out_width;
  let channels = parameters.groups * parameters.group_outputs;
  return parameters.output_offset${form.vectorOutput ? " * 4u" : ""} + pixel / plane * channels * plane + pixel % plane;
}

fn bias_of(channel: u32) -> f32 {
  ${biasText(form)}
}
${activationText(form.activation, form.dtype)}${form.vectorOutput ? vectorStore(stored, form.activation) : singleStores(form.activation)}`,
  };
}

function biasText(form: ConvResult): string {
  return form.bias ? biasTexts[form.dtype] : "return 0.0;";
}

const biasTexts: Readonly<Record<FloatType, string>> = {
  f32: "return bias[parameters.bias_offset + channel];",
  f16: "let at = parameters.bias_offset + channel;\n  return half_at(bias[at >> 1u], at);",
};

/** `place` is that of the first of the four pixels in channel 0. */
const vectorStore = (stored: FloatType, activation: Epilogue["activation"]): string => wgsl`
/// Adds the bias and stores the results of an output channel for four pixels.
fn store_four(channel: u32, place: u32, sums: vec4f) {
  let value = ${activated(activation, "sums + bias_of(channel)", true)};
  let at = (place + channel * parameters.out_height * parameters.out_width) >> 2u;
  output[at] = ${floatLayouts[stored].packed("value")};
}
`;

const singleStores = (activation: Epilogue["activation"]): string => wgsl`
/// Adds the bias and stores one result of an output channel.
fn store(channel: u32, place: u32, sum: f32) {
  output[place + channel * parameters.out_height * parameters.out_width] = ${activated(activation, "sum + bias_of(channel)")};
}

/// The same for the first pixels of four.
fn store_some(channel: u32, places: vec4u, count: u32, sums: vec4f) {
  let values = ${activated(activation, "sums + bias_of(channel)", true)};
  let at = places + channel * parameters.out_height * parameters.out_width;
  output[at.x] = values.x;
  if (count > 1u) { output[at.y] = values.y; }
  if (count > 2u) { output[at.z] = values.z; }
  if (count > 3u) { output[at.w] = values.w; }
}
`;

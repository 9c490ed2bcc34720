import type { TruthReduceKind } from "@backplane/core";
import {
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import type { BufferRegion, KernelContext } from "../../runtime/index.js";

/** WGSL expressions: what is joined of one truth value, or of four bytes at once, and the result of what was joined. */
interface TruthText {
  value(type: string, truth: string): string;
  bytes(words: string): string;
  finish(type: string): string;
}

export const truths: Readonly<Record<TruthReduceKind, TruthText>> = {
  any: {
    value: (_type, truth) => truth,
    bytes: (words) => words,
    finish: (type) => `  let result = select(${type}(0u), ${type}(1u), total != ${type}(0u));`,
  },
  all: {
    value: (type, truth) => `select(${type}(0u), ${type}(1u), ${truth} == ${type}(0u))`,
    // The lowest byte that is 0 is the first to borrow: its highest bit comes out set, and no other one below it.
    bytes: (words) => `(${words} - vec4<u32>(0x01010101u)) & ~${words} & vec4<u32>(0x80808080u)`,
    finish: (type) => `  let result = select(${type}(0u), ${type}(1u), total == ${type}(0u));`,
  },
};

/** Each invocation owns one word of the output, that is four neighbouring bytes, of which some may lie outside. */
const storeTruthsProgram: Program<"source" | "output", "words" | "count"> = program({
  name: "store_truths",
  bindings: { source: input("u32"), output: output("byte") },
  parameters: { words: "u32", count: "u32" },
  body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.words) { return; }
  let word_index = (parameters.output_offset >> 2u) + index;
  var word = output[word_index];
  for (var byte = 0u; byte < 4u; byte++) {
    // In front of the region it wraps round to a large number.
    let place = 4u * word_index + byte - parameters.output_offset;
    if (place < parameters.count) {
      word = insertBits(word, source[parameters.source_offset + place], 8u * byte, 8u);
    }
  }
  output[word_index] = word;
}
`,
});

/** output[i] = source[i]: a byte of each u32. What lies around the output keeps its bits. */
export function storeTruths(context: KernelContext, source: BufferRegion, output: BufferRegion): void {
  const first = Math.floor(output.byteOffset / 4);
  const words = Math.ceil((output.byteOffset + output.byteLength) / 4) - first;
  context.dispatch(
    storeTruthsProgram,
    { source, output },
    { words, count: output.byteLength },
    Math.ceil(words / WORKGROUP_SIZE),
  );
}

import type { BufferRegion } from "./context.js";
import { input, output, program } from "./program.js";
import type { Recorder } from "./recorder.js";
import { linearBuiltins, WORKGROUP_SIZE, wgsl, workgroupIndex } from "./wgsl.js";

/**
 * Moves of arbitrary bytes. WebGPU's own commands move whole words only, end the open compute pass, and
 * are slower than kernels (copyBufferToBuffer reaches a fifth of the bandwidth on an H200). In all of
 * these, one invocation writes a word, and every other byte keeps its bits.
 */

/** Bits of word `word` whose bytes lie in [start, end); places are bytes of the buffer. */
const byteMask = wgsl`
fn byte_mask(word: u32, start: u32, end: u32) -> u32 {
  var mask = 0u;
  for (var i = 0u; i < 4u; i++) {
    let place = 4u * word + i;
    if (place >= start && place < end) { mask |= 0xffu << (8u * i); }
  }
  return mask;
}
`;

const mergeWords = program({
  name: "merge_words",
  bindings: { bytes: output("u32") },
  // For each word: its index, the bits to change, their values.
  parameters: { count: "u32", changes: { rows: 2 } },
  body: wgsl`
@compute @workgroup_size(1)
fn main() {
  for (var i = 0u; i < parameters.count; i++) {
    let change = parameters.changes[i];
    bytes[change.x] = (bytes[change.x] & ~change.y) | (change.z & change.y);
  }
}
`,
});

/** One word per invocation. */
const copyBytes = program({
  name: "copy_bytes",
  bindings: { source: input("u32"), bytes: output("u32") },
  parameters: { start: "u32", end: "u32", source_start: "u32" },
  body: wgsl`
${workgroupIndex}
${byteMask}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let word = parameters.start / 4u + workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (4u * word >= parameters.end) { return; }
  let mask = byte_mask(word, parameters.start, parameters.end);
  if (mask == 0xffffffffu) {
    let place = 4u * word - parameters.start + parameters.source_start;
    let shift = 8u * (place & 3u);
    var value = source[place / 4u] >> shift;
    if (shift != 0u) { value |= source[place / 4u + 1u] << (32u - shift); }
    bytes[word] = value;
    return;
  }
  var value = bytes[word];
  for (var i = 0u; i < 4u; i++) {
    if (((mask >> (8u * i)) & 1u) == 0u) { continue; }
    let place = 4u * word + i - parameters.start + parameters.source_start;
    let byte = (source[place / 4u] >> (8u * (place & 3u))) & 0xffu;
    value = (value & ~(0xffu << (8u * i))) | (byte << (8u * i));
  }
  bytes[word] = value;
}
`,
});

/** Sixteen bytes per invocation, where both regions start at a multiple of that. */
const copyBlocks = program({
  name: "copy_blocks",
  bindings: { source: input("vec4u"), blocks: output("vec4u") },
  parameters: { words: "u32" },
  body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let block = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (4u * block >= parameters.words) { return; }
  let value = source[parameters.source_offset + block];
  let left = parameters.words - 4u * block;
  if (left >= 4u) {
    blocks[parameters.blocks_offset + block] = value;
    return;
  }
  for (var i = 0u; i < left; i++) { blocks[parameters.blocks_offset + block][i] = value[i]; }
}
`,
});

/** Whole words within one buffer, which can be bound but once. One word per invocation. */
const copyWithin = program({
  name: "copy_within",
  bindings: { words: output("u32") },
  parameters: { count: "u32", from_word: "u32", to_word: "u32" },
  body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let i = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (i < parameters.count) { words[parameters.to_word + i] = words[parameters.from_word + i]; }
}
`,
});

/** Sixteen bytes per invocation. */
const fillBytes = program({
  name: "fill_bytes",
  bindings: { blocks: output("vec4u") },
  parameters: { start: "u32", end: "u32", pattern: "u32" },
  body: wgsl`
${workgroupIndex}
${byteMask}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let block = parameters.start / 16u + workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (16u * block >= parameters.end) { return; }
  if (16u * block >= parameters.start && 16u * block + 16u <= parameters.end) {
    blocks[block] = vec4<u32>(parameters.pattern);
    return;
  }
  for (var i = 0u; i < 4u; i++) {
    let mask = byte_mask(4u * block + i, parameters.start, parameters.end);
    if (mask != 0u) { blocks[block][i] = (blocks[block][i] & ~mask) | (parameters.pattern & mask); }
  }
}
`,
});

/** Any bytes; the regions do not overlap. */
export function copyRegion(recorder: Recorder, destination: BufferRegion, source: BufferRegion): void {
  const start = destination.byteOffset;
  const end = start + destination.byteLength;
  const sameBuffer = destination.memory === source.memory;
  const words = destination.byteLength / 4;
  if (!sameBuffer && Number.isInteger(words) && start % 16 === 0 && source.byteOffset % 16 === 0) {
    recorder.dispatch(copyBlocks, { source, blocks: destination }, { words }, groups(words / 4));
    return;
  }
  if (sameBuffer && Number.isInteger(words) && start % 4 === 0 && source.byteOffset % 4 === 0) {
    const parameters = { count: words, from_word: source.byteOffset / 4, to_word: start / 4 };
    recorder.dispatch(copyWithin, { words: whole(destination) }, parameters, groups(words));
    return;
  }
  // A word at an edge may belong to both regions, so the source must not be read while it is written.
  const from = sameBuffer ? recorder.detached(source) : source;
  const touched = Math.ceil(end / 4) - Math.floor(start / 4);
  const parameters = { start, end, source_start: from.byteOffset };
  recorder.dispatch(
    copyBytes,
    { source: whole(from), bytes: whole(destination) },
    parameters,
    groups(touched),
  );
}

/** Writes a pattern that is aligned to the buffer, not to the region. */
export function fillRegion(recorder: Recorder, destination: BufferRegion, pattern: number): void {
  const start = destination.byteOffset;
  const end = start + destination.byteLength;
  const blocks = Math.ceil(end / 16) - Math.floor(start / 16);
  recorder.dispatch(fillBytes, { blocks: whole(destination) }, { start, end, pattern }, groups(blocks));
}

/**
 * Writes bytes to the words that `destination` covers in part: at most one at each end. Answers the
 * part in between, which consists of whole words, as places within `source`.
 */
export function writeEdges(
  recorder: Recorder,
  destination: BufferRegion,
  source: Uint8Array<ArrayBufferLike>,
): { readonly start: number; readonly end: number } {
  const first = destination.byteOffset;
  const last = first + source.byteLength;
  const inner = { start: Math.ceil(first / 4) * 4, end: Math.floor(last / 4) * 4 };
  const words = new Set<number>();
  if (first < inner.start) words.add(inner.start / 4 - 1);
  if (last > inner.end) words.add(inner.end / 4);
  const changes = [...words].flatMap((word) => {
    let mask = 0;
    let value = 0;
    for (let i = 0; i < 4; i++) {
      const place = 4 * word + i;
      if (place < first || place >= last) continue;
      mask |= 0xff << (8 * i);
      value |= source[place - first]! << (8 * i);
    }
    return [word, mask, value, 0];
  });
  if (words.size > 0)
    recorder.dispatch(mergeWords, { bytes: whole(destination) }, { count: words.size, changes }, 1);
  return { start: inner.start - first, end: Math.max(inner.start, inner.end) - first };
}

function whole({ memory }: BufferRegion): BufferRegion {
  return { memory, byteOffset: 0, byteLength: memory.capacity };
}

function groups(invocations: number): number {
  return Math.ceil(invocations / WORKGROUP_SIZE);
}

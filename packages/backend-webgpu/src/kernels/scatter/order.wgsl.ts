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
import { type TargetParameter, targetFunctions, targetParameters } from "./targets.wgsl.js";

/*
 * Pairs (key, entry) in the order of keys, and of entries within one key: a radix sort from the lowest digit of the
 * keys to the highest, each pass of which keeps the order of pairs whose digits are alike. A pass counts the digits of each
 * tile of entries; sums the counts of a digit over the tiles; and places the pairs. No result depends on which
 * invocation is first: atomic operations only count, and set bits.
 */

/** Digits are below this number: one for each invocation of a workgroup. */
export const RADIX: number = WORKGROUP_SIZE;

/** Where the pairs come from: entries are made pairs in the first pass. */
export type Source = "indices" | "pairs";

export type OrderParameter = "entries" | "tiles" | "shift" | "mask" | TargetParameter;

const parameters: Readonly<Record<OrderParameter, "u32">> = {
  ...{ entries: "u32", tiles: "u32", shift: "u32", mask: "u32" },
  ...targetParameters,
};

const storages = { indices: input("i32"), pairs: input("vec2u") } as const;

/** A tile has as many rounds of a workgroup's entries as it takes to share all of them. */
function pairFunctions(source: Source): string {
  return wgsl`
${workgroupIndex}
${source === "indices" ? targetFunctions : ""}
fn rounds() -> u32 {
  let share = parameters.tiles * ${WORKGROUP_SIZE}u;
  return (parameters.entries + share - 1u) / share;
}

fn pair_at(place: u32) -> vec2u {
  return ${source === "indices" ? "vec2u(key_of(place), place)" : "pairs[parameters.pairs_offset + place]"};
}

fn digit_of(key: u32) -> u32 {
  return (key >> parameters.shift) & parameters.mask;
}`;
}

/** counts[digit * tiles + tile]: how many keys of the tile have this digit. */
export function countProgram(source: Source): Program<Source | "counts", OrderParameter> {
  const bindings = { [source]: storages[source], counts: output("u32") };
  return program({
    name: `scatter_count_${source}`,
    bindings: bindings as Record<Source | "counts", (typeof storages)[Source]>,
    parameters,
    light: true,
    body: wgsl`
${pairFunctions(source)}

var<workgroup> found: array<atomic<u32>, ${RADIX}>;

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let tile = workgroup_index(workgroup, workgroups);
  if (tile >= parameters.tiles) { return; }
  atomicStore(&found[lane], 0u);
  workgroupBarrier();
  let start = tile * rounds() * ${WORKGROUP_SIZE}u + lane;
  for (var round = 0u; round < rounds(); round++) {
    let place = start + round * ${WORKGROUP_SIZE}u;
    if (place < parameters.entries) { atomicAdd(&found[digit_of(pair_at(place).x)], 1u); }
  }
  workgroupBarrier();
  if (lane <= parameters.mask) {
    counts[parameters.counts_offset + lane * parameters.tiles + tile] = atomicLoad(&found[lane]);
  }
}
`,
  });
}

/** Words of a mask with a bit for each invocation. */
const WORDS = WORKGROUP_SIZE / 32;

/**
 * Places the pairs of a tile behind those of lower digits and of earlier tiles, whose numbers are in `sums`: counts, summed up
 * to and with each tile. In each round, every digit has a mask of the invocations that hold it, which says how many of them are
 * before a given one.
 */
export function placeProgram(source: Source): Program<Source | "sums" | "placed", OrderParameter> {
  const bindings = { [source]: storages[source], sums: input("u32"), placed: output("vec2u") };
  return program({
    name: `scatter_place_${source}`,
    bindings: bindings as Record<Source | "sums" | "placed", (typeof storages)[Source]>,
    parameters,
    light: true,
    body: wgsl`
${pairFunctions(source)}

/// Bit i of word w of digit d, at w * ${RADIX} + d: whether invocation 32 * w + i holds d.
var<workgroup> holders: array<atomic<u32>, ${WORDS * RADIX}>;
/// Where the next pair of each digit goes.
var<workgroup> next: array<u32, ${RADIX}>;

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let tile = workgroup_index(workgroup, workgroups);
  if (tile >= parameters.tiles) { return; }
  for (var word = 0u; word < ${WORDS}u; word++) { atomicStore(&holders[word * ${RADIX}u + lane], 0u); }
  let row = parameters.sums_offset + lane * parameters.tiles;
  var total = 0u;
  var earlier = 0u;
  if (lane <= parameters.mask) {
    total = sums[row + parameters.tiles - 1u];
    if (tile > 0u) { earlier = sums[row + tile - 1u]; }
  }
  next[lane] = total;
  workgroupBarrier();
  // The sum of the totals up to and with that of each digit.
  for (var reach = 1u; reach < ${RADIX}u; reach *= 2u) {
    var before = 0u;
    if (lane >= reach) { before = next[lane - reach]; }
    workgroupBarrier();
    next[lane] += before;
    workgroupBarrier();
  }
  next[lane] += earlier - total;
  workgroupBarrier();
  let own = lane / 32u;
  let bit = 1u << (lane % 32u);
  for (var round = 0u; round < rounds(); round++) {
    let place = (tile * rounds() + round) * ${WORKGROUP_SIZE}u + lane;
    let holds = place < parameters.entries;
    var pair = vec2u(0u);
    if (holds) { pair = pair_at(place); }
    let digit = digit_of(pair.x);
    if (holds) { atomicOr(&holders[own * ${RADIX}u + digit], bit); }
    workgroupBarrier();
    if (holds) {
      var to = next[digit] + countOneBits(atomicLoad(&holders[own * ${RADIX}u + digit]) & (bit - 1u));
      for (var word = 0u; word < own; word++) {
        to += countOneBits(atomicLoad(&holders[word * ${RADIX}u + digit]));
      }
      placed[parameters.placed_offset + to] = pair;
    }
    workgroupBarrier();
    for (var word = 0u; word < ${WORDS}u; word++) {
      next[lane] += countOneBits(atomicExchange(&holders[word * ${RADIX}u + lane], 0u));
    }
    workgroupBarrier();
  }
}
`,
  });
}

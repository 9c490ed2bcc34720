import { type ComputedType, type ElementType, wgsl } from "../../program/index.js";

/*
 * A record is a key and a tag. Keys are whole numbers whose order is that of the elements: NaN last, and zeros of
 * either sign alike. Tags are places, and say of zeros whether they were negative; so an element is known from its
 * record, and need not be read again.
 */

/** What `parameters.flip` is if the largest number comes first. Keys of no number become that of NaN. */
export const flipOf: Readonly<Record<ComputedType, number>> = {
  f32: 0xffffffff,
  f16: 0xffff,
  i32: 0xffffffff,
  u32: 0xffffffff,
};

export interface KeyText {
  /** Those in which keys may differ, from the lowest on. */
  readonly bits: 16 | 32;
  /** How elements are bound. */
  readonly storage: ElementType;
  /** `raw_at(place)`: the bits of an element in the binding `data`. */
  readonly reading: string;
  /** `key_of(raw)`, `tag_of(place, raw)`, and `result_of(key, tag)`: the bits of the element, as f32 if it is f16. */
  readonly functions: string;
}

/** Above the largest key, or the same. */
export const LAST_KEY = "0xffffffffu";

export const PLACE_MASK = "0x7fffffffu";

const wordAt = wgsl`
fn raw_at(place: u32) -> u32 { return data[parameters.data_offset + place]; }
`;

const halfAt = wgsl`
fn raw_at(place: u32) -> u32 {
  let at = parameters.data_offset + place;
  return (data[at >> 1u] >> ((at & 1u) * 16u)) & 0xffffu;
}
`;

/** The bits of negative numbers are inverted, and the sign of the others. */
function floats(sign: string, mask: string, infinity: string, result: string): string {
  return wgsl`
fn key_of(raw: u32) -> u32 {
  let magnitude = raw & ~${sign};
  let plain = select(raw, 0u, magnitude == 0u);
  let key = plain ^ select(${sign}, ${mask}, plain >= ${sign});
  return select(key ^ parameters.flip, ${mask}, magnitude > ${infinity});
}

fn tag_of(place: u32, raw: u32) -> u32 { return place | select(0u, 0x80000000u, raw == ${sign}); }

fn result_of(key: u32, tag: u32) -> u32 {
  let plain = key ^ parameters.flip;
  let raw = plain ^ select(${mask}, ${sign}, plain >= ${sign});
  let signed_raw = select(raw, ${sign}, tag >= 0x80000000u);
  return select(${result}, 0x7fc00000u, key == ${mask});
}
`;
}

/** One number is inverted for the other order. */
function integers(zero: string): string {
  return wgsl`
fn key_of(raw: u32) -> u32 { return raw ^ ${zero} ^ parameters.flip; }

fn tag_of(place: u32, raw: u32) -> u32 { return place; }

fn result_of(key: u32, tag: u32) -> u32 { return key ^ ${zero} ^ parameters.flip; }
`;
}

const word = { bits: 32, storage: "u32", reading: wordAt } as const;

export const keyTexts: Readonly<Record<ComputedType, KeyText>> = {
  f32: { ...word, functions: floats("0x80000000u", "0xffffffffu", "0x7f800000u", "signed_raw") },
  f16: {
    ...{ bits: 16, storage: "half", reading: halfAt },
    functions: floats("0x8000u", "0xffffu", "0x7c00u", "bitcast<u32>(unpack2x16float(signed_raw).x)"),
  },
  i32: { ...word, functions: integers("0x80000000u") },
  u32: { ...word, functions: integers("0u") },
};

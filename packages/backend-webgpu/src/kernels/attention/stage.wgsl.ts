import { lines } from "../../program/index.js";
import { stagedPitch } from "../tiles/index.js";
import { type AttentionTile, attentionThreads, SHARE, stagePlaces } from "./tile.js";

/** How operands get from their buffers to workgroup memory, through the registers `fetched_...`. */
export interface Stage {
  /** How many registers it uses. */
  readonly registers: number;
  /** Reads a step into the registers, if possible without conditions, which would hold up the loads. */
  readonly load: string;
  /** Writes the registers to workgroup memory. */
  readonly store: string;
}

const fours = (map: (i: number) => string): string[] => [0, 1, 2, 3].map(map);
const fetched = (i: number) => `fetched_${i}`;

/**
 * Declares the registers for values that are read ahead. Stages take turns in using them: registers for each
 * stage would be occupied all the time.
 */
export function fetchedRegisters(...stages: readonly Stage[]): string {
  const count = Math.max(...stages.map(({ registers }) => registers));
  return lines(count, (i) => `  var ${fetched(i)} = vec4f();`);
}

/** One invocation's part of an operand, in units of which it brings at most one in a round. */
interface Unit {
  /** WGSL expression. */
  readonly number: string;
  /** The number of the first of its registers. */
  readonly register: number;
}

interface Access {
  readonly load: string;
  readonly store: string;
}

/**
 * A block of left rows (four of them) or right ones, such as queries or keys, and of head elements from `depthBase` on (four, or one if they
 * cannot be read four at a time), staged as quads along rows or keys.
 *
 * The i-th value of a quad of keys is 8 * i keys further on: so neighbouring invocations, which have
 * neighbouring quads, have weights of neighbouring keys. Rows and keys past the end repeat the last one,
 * whose results are not used. Head elements past the end repeat the last ones, and are zeros on the left.
 */
function block(
  tile: AttentionTile,
  operand: StagedRows,
  isLeft: boolean,
  vector: boolean,
  unit: Unit,
): Access {
  const perUnit = vector ? 4 : 1;
  const steps = tile.depth / perUnit;
  const [quad, depth] = [`(${unit.number}) / ${steps}u`, `(${unit.number}) % ${steps}u * ${perUnit}u`];
  const { name, first, last } = operand;
  const row = (i: number) =>
    isLeft
      ? `min(${first} + quad * 4u + ${i}u, ${last})`
      : `min(${first} + quad / ${SHARE}u * ${4 * SHARE}u + quad % ${SHARE}u + ${i * SHARE}u, ${last})`;
  const at = (i: number) => `${name}_base + ${row(i)} * ${pitchOf(operand)} + along`;
  const values = vector ? fours((i) => fetched(unit.register + i)) : [fetched(unit.register)];
  const loads = vector
    ? values.map((value, i) => `      ${value} = ${name}_load4(${at(i)});`)
    : [`      ${values[0]} = vec4f(${fours((i) => `${name}_load1(${at(i)})`).join(", ")});`];
  const zeros = values.map((value) => `${value} = vec4f();`).join(" ");
  const columns = vector
    ? fours((i) => `vec4f(${values.map((value) => `${value}.${"xyzw"[i]}`).join(", ")})`)
    : values;
  const pitch = isLeft ? "LEFT_PITCH" : "RIGHT_PITCH";
  const place = stagePlaces(tile)[isLeft ? "left" : "right"](`(${depth}) / UNROLL`);
  return {
    load: `      let quad = ${quad};
      let along = min(depthBase + ${depth}, parameters.head_size - ${perUnit}u);
${loads.join("\n")}
${isLeft ? `      if (depthBase + ${depth} >= parameters.head_size) { ${zeros} }` : ""}`,
    store: columns
      .map((value, i) => `      ${place}((${depth}) % UNROLL + ${i}u) * ${pitch} + ${quad}] = ${value};`)
      .join("\n"),
  };
}

/** Rows of an operand that are staged: WGSL expressions for the first of them, and for the last that there is. */
export interface StagedRows {
  readonly name: string;
  readonly first: string;
  readonly last: string;
  /** Elements from one row to the next. Default: head_size. */
  readonly pitch?: string;
}

function pitchOf({ pitch = "parameters.head_size" }: StagedRows): string {
  return pitch;
}

/** Left rows, of which there are `queries`, and right ones, `keys`. */
export function operandsStage(
  tile: AttentionTile,
  vector: boolean,
  left: StagedRows,
  right: StagedRows,
): Stage {
  const perUnit = vector ? 4 : 1;
  const threads = attentionThreads(tile);
  const queryUnits = ((tile.queries / 4) * tile.depth) / perUnit;
  const allUnits = queryUnits + ((tile.keys / 4) * tile.depth) / perUnit;
  const rounds = Math.ceil(allUnits / threads);
  const text = (what: keyof Access) =>
    lines(rounds, (round) => {
      const [first, end] = [round * threads, (round + 1) * threads];
      const register = round * perUnit;
      const query = block(tile, left, true, vector, { number: `lane + ${first}u`, register })[what];
      const past = first - queryUnits;
      const number = past < 0 ? `lane - ${-past}u` : `lane + ${past}u`;
      const key = block(tile, right, false, vector, { number, register })[what];
      const keys = end <= allUnits ? `{\n${key}\n    }` : `if (lane < ${allUnits - first}u) {\n${key}\n    }`;
      if (past >= 0) return `    ${keys}`;
      if (end <= queryUnits) return `    {\n${query}\n    }`;
      return `    if (lane < ${queryUnits - first}u) {\n${query}\n    } else ${keys}`;
    });
  return { registers: rounds * perUnit, load: text("load"), store: text("store") };
}

/** Rows staged as quads along the head, such as the values of keys. Rows past the end have no weight. */
export function valuesStage(
  tile: AttentionTile,
  columns: number,
  vector: boolean,
  operand: StagedRows,
): Stage {
  const { name, first, last } = operand;
  const quads = columns / 4;
  const threads = attentionThreads(tile);
  const units = quads * tile.valueDepth;
  const rounds = Math.ceil(units / threads);
  const text = (what: (quad: string, key: string, register: string) => string) =>
    lines(rounds, (round) => {
      const unit = `(lane + ${round * threads}u)`;
      const statements = what(`${unit} % ${quads}u`, `${unit} / ${quads}u`, fetched(round));
      const left = units - round * threads;
      return left < threads
        ? `    if (lane < ${left}u) {\n${statements}\n    }`
        : `    {\n${statements}\n    }`;
    });
  const column = (quad: string, i: number, last: number) =>
    `min(headBase + ${quad} * 4u + ${i}u, parameters.head_size - ${last}u)`;
  return {
    registers: rounds,
    load: text((quad, key, register) => {
      const loaded = vector
        ? `${name}_load4(row + ${column(quad, 0, 4)})`
        : `vec4f(${fours((i) => `${name}_load1(row + ${column(quad, i, 1)})`).join(", ")})`;
      return `      let row = ${name}_base + min(${first} + ${key}, ${last}) * ${pitchOf(operand)};
      ${register} = ${loaded};`;
    }),
    store: text(
      (quad, key, register) =>
        `      ${stagePlaces(tile).values(`${key} / UNROLL`)}${key} % UNROLL * ${stagedPitch(columns)}u + ${quad}] = ${register};`,
    ),
  };
}

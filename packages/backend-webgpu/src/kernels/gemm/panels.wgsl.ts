import { lines } from "../../program/index.js";
import { SIDE, UNIT } from "../tiles/index.js";
import { extents, type MatrixTile, matrixThreads, type PanelLayout, panelLayout } from "./matrix-tile.js";

/** The texts that stage one operand in its stored layout, and read it as subgroup matrices. */
export interface Panels {
  readonly layout: PanelLayout;
  readonly declaration: string;
  /** Run once: the values that do not change from one step of k to the next. */
  readonly prepare: string;
  /** Reads the part that starts at `depthAt` into registers; past the end of k anything. */
  readonly load: string;
  /** Writes the registers, which hold the data that starts at `held`, to workgroup memory. */
  readonly store: string;
  /** As `store` if they reach past the end of k, with zeros from there on. */
  readonly storeEnd: string;
  /** Reads matrix `i` of the step that starts at `16 * step`. */
  matrix(i: number, step: number): string;
}

/**
 * Each row (or column) of subgroups has a panel, which is an array of its own: so the places of subgroup
 * matrices within it are constants, which are proved inside it when the kernel is compiled. Checks at run
 * time would cost a third of the speed.
 */
export function panelsOf(tile: MatrixTile, name: "a" | "b", contiguousDepth: boolean): Panels {
  const left = name === "a";
  const [extent, panel] = extents(tile, left);
  const { depth } = tile;
  const layout = panelLayout(tile, left, contiguousDepth);
  const { pitch } = layout;
  const threads = matrixThreads(tile);
  const perRow = (contiguousDepth ? depth : extent) / UNIT;
  const units = (extent * depth) / UNIT;
  const rounds = Math.ceil(units / threads);
  const [origin, limit] = left ? ["rowBase", "parameters.m"] : ["columnBase", "parameters.n"];
  const each = (line: (round: number) => string) => lines(rounds, line);
  const steps = depth / UNIT;

  // If the tile allows it, all invocations move data in a round that is equally far from their data of the
  // first round; then only the first places are kept. Otherwise each round has its own.
  const rowsPerRound = threads / perRow;
  const alike = contiguousDepth
    ? rowsPerRound % SIDE === 0 && (rowsPerRound % panel === 0 || panel % rowsPerRound === 0)
    : Number.isInteger(rowsPerRound);
  const first = (i: number) => (alike ? 0 : i);
  const further = (i: number) => (alike ? i * rowsPerRound : 0);
  const part = (i: number) => `${name}_part_${first(i)}`;
  const rowSum = (i: number) => `${name}_row_${first(i)} + ${further(i)}u`;
  const row = (i: number) => `(${rowSum(i)})`;
  const [panelFurther, atFurther] = contiguousDepth
    ? [(i: number) => Math.floor(further(i) / panel), (i: number) => ((further(i) % panel) / SIDE) * steps]
    : [() => 0, (i: number) => further(i) * pitch];
  const [panelAt, at] = contiguousDepth
    ? [
        (i: number) => `${row(i)} / ${panel}u`,
        (i: number) =>
          `${row(i)} % ${SIDE}u * ${pitch}u + ${row(i)} % ${panel}u / ${SIDE}u * ${steps}u + ${part(i)}`,
      ]
    : [
        (i: number) => `${part(i)} / ${panel / UNIT}u`,
        (i: number) => `${row(i)} * ${pitch}u + ${part(i)} % ${panel / UNIT}u`,
      ];
  // Eight neighbours, whose stores are carried out together, have units of rows that lie so far apart that they
  // are in different banks.
  const rowOf = (unit: string) =>
    contiguousDepth && perRow < 8
      ? `${unit} / ${8 * perRow}u * 8u + ${unit} % 8u / ${perRow}u * ${perRow}u + ${unit} % ${8 * perRow}u / 8u`
      : `${unit} / ${perRow}u`;
  const places = lines(
    alike ? 1 : rounds,
    (i) => `  let ${name}_row_${i} = ${rowOf(`(lane + ${i * threads}u)`)};
  let ${name}_part_${i} = (lane + ${i * threads}u) % ${perRow}u;
  let ${name}_panel_${i} = ${panelAt(i)};
  let ${name}_at_${i} = ${at(i)};`,
  );

  // Rows and columns past the end repeat the last ones, whose results are never stored, and so do steps of k:
  // no load waits for a decision. Sums start with the terms that all rounds share.
  const [start, onwards, deep] = contiguousDepth
    ? [
        (i: number) => `min(${origin} + ${rowSum(i)}, ${limit} - 1u) * ${name}_units`,
        (i: number) => `min(depthAt / ${UNIT}u + ${part(i)}, last / ${UNIT}u)`,
        (i: number) => `${part(i)} * ${UNIT}u`,
      ]
    : [
        (i: number) => `min(${origin} / ${UNIT}u + ${part(i)}, (${limit} - 1u) / ${UNIT}u)`,
        (i: number) => `min(depthAt + ${rowSum(i)}, last) * ${name}_units`,
        rowSum,
      ];
  const stored = (i: number, value: string) => {
    const panelOfRound = `${name}_panel_${first(i)} + ${panelFurther(i)}u`;
    const statement = `${name}_panels[${panelOfRound}][${name}_at_${first(i)} + ${atFurther(i)}u] = ${value};`;
    const rest = units - i * threads;
    return rest < threads ? `      if (lane < ${rest}u) { ${statement} }` : `      ${statement}`;
  };
  const side = left ? "left" : "right";
  const order = contiguousDepth === left ? "row_major" : "col_major";
  const load = `subgroupMatrixLoad<subgroup_matrix_${side}<f16, ${SIDE}, ${SIDE}>, ${order}>`;
  return {
    layout,
    declaration: `var<workgroup> ${name}_panels: array<array<vec4u, ${layout.units}>, ${layout.panels}>;`,
    prepare: `${places}
  let ${name}_units = parameters.${name}_pitch / ${UNIT}u;
${each(
  (i) => `  let ${name}_start_${i} = ${name}_base / ${UNIT}u + ${start(i)};
  var ${name}_value_${i}: vec4u;`,
)}`,
    load: each((i) => `    ${name}_value_${i} = ${name}[${name}_start_${i} + ${onwards(i)}];`),
    store: each((i) => stored(i, `${name}_value_${i}`)),
    storeEnd: each((i) => stored(i, `select(vec4u(), ${name}_value_${i}, held + ${deep(i)} < k)`)),
    matrix: (i, step) => {
      const place = contiguousDepth ? i * steps + 2 * step : SIDE * step * pitch + 2 * i;
      return `${load}(&${name}_panels[${left ? "panelRow" : "panelColumn"}], ${place}u, ${pitch}u)`;
    },
  };
}

import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";

/**
 * A product on the matrix units of a GPU: a workgroup computes `rows` x `columns`, each of its subgroups
 * of 32 invocations `subgroupRows` x `subgroupColumns` of them, in steps of `depth` along k. All are
 * multiples of 16.
 */
export interface MatrixTile {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly subgroupRows: number;
  readonly subgroupColumns: number;
}

export function matrixThreads(tile: MatrixTile): number {
  return (tile.rows / tile.subgroupRows) * (tile.columns / tile.subgroupColumns) * SUBGROUP;
}

/** How the panels of one operand lie in workgroup memory; all counts are of units. */
export interface PanelLayout {
  readonly panels: number;
  /** Of a panel, whichever way its operand is stored. */
  readonly units: number;
  /** From one row of a subgroup matrix to the next: odd, to spread the banks. */
  readonly pitch: number;
}

/** Of A (`left`) or B; `contiguousDepth`: neighbours in memory are neighbours along k. */
export function panelLayout(tile: MatrixTile, left: boolean, contiguousDepth: boolean): PanelLayout {
  const [extent, panel] = extents(tile, left);
  // Along k the rows of several subgroup matrices lie side by side, so that one unit in many is padding.
  const along = ((panel / SIDE) * tile.depth) / UNIT + 1;
  const across = panel / UNIT + 1;
  return {
    panels: extent / panel,
    units: Math.max(along * SIDE, across * tile.depth),
    pitch: contiguousDepth ? along : across,
  };
}

export function extents(tile: MatrixTile, left: boolean): [extent: number, panel: number] {
  return left ? [tile.rows, tile.subgroupRows] : [tile.columns, tile.subgroupColumns];
}

/** Such as `128x128x32_64x64`. */
export function matrixTileName(tile: MatrixTile): string {
  return `${tile.rows}x${tile.columns}x${tile.depth}_${tile.subgroupRows}x${tile.subgroupColumns}`;
}

/** Workgroup memory in bytes. */
export function matrixBytes(tile: MatrixTile): number {
  const units = (left: boolean) => {
    const { panels, units } = panelLayout(tile, left, false);
    return panels * units;
  };
  return 2 * UNIT * (units(true) + units(false));
}

import { input, type ParameterType, type Storage, wgsl } from "../../../program/index.js";

/** Tiles of C that are computed in one way or the other, wholly. */
export interface Block {
  readonly rows: number;
  readonly columns: number;
}

/** Of programs that ask which blocks have wide lines; see `wideBlocksProgram`. */
export const wideBinding: Readonly<Record<string, Storage>> = { blocks: input("u32") };

export const wideParameters: Readonly<Record<string, ParameterType>> = {
  /** Blocks from one matrix to the next: of rows and of columns, which start at `column_blocks`. */
  row_block_step: "u32",
  column_block_step: "u32",
  column_blocks: "u32",
};

/**
 * `is_wide`: whether the block of a result has a wide row or column, so that it is left to the plain product.
 * For tiles that lie in one block; the same for all invocations of such a tile.
 */
export function wideText(block: Block): string {
  return wgsl`
fn is_wide(matrix: u32, row: u32, column: u32) -> bool {
  let rows = blocks[parameters.blocks_offset + matrix * parameters.row_block_step + row / ${block.rows}u];
  let columns = blocks[
    parameters.blocks_offset + parameters.column_blocks + matrix * parameters.column_block_step
      + column / ${block.columns}u];
  return (rows | columns) != 0u;
}
`;
}

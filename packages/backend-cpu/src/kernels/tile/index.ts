export { emitSteps, emitTile, type RegisterTile, tileColumns, tileRows } from "./tile.js";

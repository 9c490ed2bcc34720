export { emitSteps, emitTile, type RegisterTile, tileColumns, tileRows, zeroTile } from "./tile.js";

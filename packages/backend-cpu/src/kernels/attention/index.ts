export { attention } from "./attention.js";
export { emitMasked, maskKinds, maskOfHead } from "./hiding.wasm.js";
export { blockQueries, keyTile, queryTile, rowBytes, scoreRows } from "./layout.js";
export { emitPacked } from "./pack.wasm.js";

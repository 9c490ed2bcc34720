/** What operations on images share: where windows are, what is resized, and how rows, pixels and channels are dealt out. */
export { forChannels, type StoreVectors } from "./channels.js";
export { lineUnroll, storeLineFunction } from "./lines.js";
export { type PanelName, type PanelRows, panelRows, panelTypes } from "./panels.js";
export { chunkPixels, type PixelName, pixelTypes } from "./pixels.js";
export {
  type AxisLocals,
  type ResizingName,
  resizedAxes,
  resizingParameters,
  resizingTypes,
} from "./resized.js";
export {
  pushWindows,
  setWindow,
  type WindowAxis,
  type WindowLocals,
  type WindowName,
  type WindowPlaces,
  windowAxes,
  windowLocals,
  windowPlaces,
  windowTypes,
} from "./windows.js";

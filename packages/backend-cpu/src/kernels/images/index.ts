/** What operations on images share: where windows are. */
export { setWindow, type WindowAxis, type WindowLocals, windowLocals } from "./windows.js";

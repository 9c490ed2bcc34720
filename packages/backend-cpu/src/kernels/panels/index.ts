export { packFunction, packNanoseconds, panelHeight } from "./pack.js";

export { unary } from "./unary.js";

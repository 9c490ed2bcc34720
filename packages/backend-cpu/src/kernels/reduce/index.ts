export { reduce } from "./reduce.js";

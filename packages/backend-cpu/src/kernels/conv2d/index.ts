export { conv2d } from "./conv2d.js";

export { map } from "./map.js";

/** JSON as it goes over the wires. */
export type Json = string | number | boolean | null | readonly Json[] | JsonObject
export type JsonObject = { readonly [key: string]: Json | undefined }

/** JSON Schema 2020-12 with an object at its root, as MCP wants schemas of tools to be. */
export type JsonSchema = JsonObject & { readonly type: 'object' }

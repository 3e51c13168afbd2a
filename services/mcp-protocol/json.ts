/** JSON values. */
export type Json = string | number | boolean | null | readonly Json[] | JsonObject
export type JsonObject = { readonly [key: string]: Json | undefined }

/** JSON Schema 2020-12 with an object at its root, as MCP requires of tool schemas. */
export type JsonSchema = JsonObject & { readonly type: 'object' }

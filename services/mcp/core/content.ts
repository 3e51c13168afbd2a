/** Content blocks of tools, resources and prompts. The server sends the same blocks in all MCP revisions. */
import type { JsonObject } from '../../mcp-protocol/json.ts'

type Annotations = {
  readonly audience?: readonly ('user' | 'assistant')[]
  readonly priority?: number
  readonly lastModified?: string
}

/** `blob` is base64. */
export type ResourceContents = {
  readonly uri: string
  readonly mimeType?: string
  readonly _meta?: JsonObject
} & ({ readonly text: string } | { readonly blob: string })

export type Content = { readonly annotations?: Annotations; readonly _meta?: JsonObject } & (
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image' | 'audio'; readonly data: string; readonly mimeType: string }
  | {
      readonly type: 'resource_link'
      readonly uri: string
      readonly name: string
      readonly title?: string
      readonly description?: string
      readonly mimeType?: string
    }
  | { readonly type: 'resource'; readonly resource: ResourceContents }
)

export type Icon = { readonly src: string; readonly mimeType?: string; readonly sizes?: readonly string[] }

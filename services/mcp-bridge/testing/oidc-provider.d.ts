/** The parts of `oidc-provider` that the tests use. The package has no types. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  type Account = { readonly accountId: string; claims(): Record<string, unknown> }
  export type Configuration = {
    readonly clients: readonly Record<string, unknown>[]
    readonly claims: Readonly<Record<string, readonly string[]>>
    readonly findAccount: (context: unknown, accountId: string) => Account
    readonly pkce: { readonly required: () => boolean }
    readonly features: { readonly devInteractions: { readonly enabled: boolean } }
  }
  export class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): RequestListener
  }
}

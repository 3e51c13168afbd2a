/** One exception, and what exceptions ask of requests and answers. */
import type { Answer } from '../../../../testing/client.ts'
import type { Part } from '../compare.ts'
import type { Asked } from '../request.ts'

type Facts = { readonly asked: Asked; readonly theirs: Answer; readonly ours: Answer }

export type Exception = {
  /** What holds for ours. */
  readonly rule: string
  /** Release notes of PostgREST with the number of the change, the contract, or the words of the documentation that tell users. */
  readonly source: string
  /** Parts that may differ; all where it is not given. */
  readonly parts?: readonly Part[]
  readonly applies: (facts: Facts) => boolean
}

export const codeOf = ({ text }: Answer): string => /^\{"code":"(?:PG)?([^"]*)"/.exec(text)?.[1] ?? ''
export const hasParameter = ({ query }: Asked, name: RegExp): boolean => query.some(([key]) => name.test(key))

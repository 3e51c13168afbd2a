/**
 * Where responses may differ from those of PostgREST 12.0.2, and why: changes in PostgREST up to version 14, and
 * documented differences. Each rule defines the exact expected response. Every other difference is a bug.
 */
import type { SentRequest } from '../request.ts'
import { ofCounts } from './counts.ts'
import { ofFound } from './found.ts'
import { ofHeaders } from './headers.ts'
import { ofRequests } from './requests.ts'
import type { Rule } from './rule.ts'
import { ofSeveral } from './several.ts'
import { ofWording } from './wording.ts'

/** The rules, in the order in which they change a response. */
export const rules: readonly Rule[] = [...ofRequests, ...ofCounts, ...ofWording, ...ofFound, ...ofHeaders, ...ofSeveral]

/** The request in the form for 12.0.2, and the rules that changed it. */
export function translated(
  sent: SentRequest,
  all: readonly Rule[] = rules,
): { readonly sent: SentRequest; readonly by: readonly Rule[] } {
  let found = sent
  const by: Rule[] = []
  for (const rule of all) {
    const next = rule.rewrite?.(found)
    if (next === undefined) continue
    found = next
    by.push(rule)
  }
  return { sent: found, by }
}

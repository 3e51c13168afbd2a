/**
 * Allowlists. A bare address is stored as /32, and a block is masked to its network address. The number and order of
 * the rules stay unchanged. If two rules have the same block, each keeps its label.
 */
import { z } from 'zod'
import { allowlistRule, type IpAllowlist } from '../../crds/index.ts'
import { allowlistState, maskCidr } from '../../values/cidr.ts'
import { ignored } from '../schemas/common.ts'
import { both } from '../schemas/components.ts'
import { plainText } from '../schemas/plain-text.ts'

const states = ['closed', 'open', 'restricted'] as const
const { label } = allowlistRule.shape
const ruleInput = allowlistRule
  .extend({
    label: plainText(label.unwrap())
      .optional()
      .describe(label.description ?? ''),
  })
  .meta({
    description: 'An accepted address or block of addresses.',
    example: { cidr: '203.0.113.0/24', label: 'office' },
  })
const rules = both('IPAllowlistRule', ruleInput, allowlistRule)

const { taken, given } = both(
  'IPAllowlist',
  z
    .strictObject({
      rules: z.array(rules.taken).max(50).describe('The rules, at most 50. An empty list closes the endpoint.'),
      state: ignored(
        '`closed`: no rules, so no client can connect. `open`: a rule accepts every address. `restricted`: otherwise. Derived from the rules; ignored on input.',
        { type: 'string', 'x-extensible-enum': states },
      ),
    })
    .meta({
      description: 'The addresses that may connect to one endpoint. Without rules no client can connect.',
      example: { rules: [{ cidr: '203.0.113.0/24', label: 'office' }], state: 'restricted' },
    }),
  z.strictObject({ rules: z.array(rules.given), state: z.enum(states).optional() }),
)
export const allowlistInput = taken
export const allowlistShape = given

/** The rules in stored form: masked, without the state. */
export function storedAllowlist(given: z.output<typeof allowlistInput>): IpAllowlist {
  return { rules: given.rules.map(rule => ({ ...rule, cidr: maskCidr(rule.cidr) ?? rule.cidr })) }
}

export function renderAllowlist(stored: IpAllowlist): z.output<typeof allowlistShape> {
  return { rules: stored.rules, state: allowlistState(stored.rules.map(rule => rule.cidr)) }
}

import { expect, test } from 'vitest'
import { inOptions } from './fields.ts'

const rewrite = inOptions({ size: '--size', target_time: '--at', backup_id: '--from-backup', ip_allowlist: '--allow' })

test.each([
  ['size: unknown size', '--size: unknown size'],
  ['ip_allowlist.rules[3].cidr: must be an IPv4 address', '--allow: must be an IPv4 address'],
  ['target_time: is required; size: is required', '--at: is required; --size: is required'],
  ['backup_id: cannot be combined with target_time', '--from-backup: cannot be combined with --at'],
  // A word of the sentence, a field without an option, and a name that objects inherit.
  ['the size: it is too small', 'the size: it is too small'],
  ['other_field: must be a size', 'other_field: must be a size'],
  ['constructor: unknown field', 'constructor: unknown field'],
])('%s', (message, expected) => expect(rewrite(message)).toBe(expected))

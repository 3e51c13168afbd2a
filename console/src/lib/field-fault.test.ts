import { expect, test } from 'vitest'
import { ApiError } from '../api/errors.ts'
import { fieldFault } from './field-fault.ts'

test.each([
  [new ApiError(400, 'name: another database has this name'), 'Another database has this name'],
  [new ApiError(400, 'display_name: is too long'), undefined],
  [new ApiError(409, 'the name: is not a field'), undefined],
  [new Error('name: not from the API'), undefined],
  [null, undefined],
])('the message about the field "name" in %s is %s', (error, text) => expect(fieldFault(error, 'name')).toBe(text))

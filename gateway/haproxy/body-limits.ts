/**
 * A Lua script for HAProxy that counts the bytes of each body, like `../http/request-body.ts`. HAProxy itself limits
 * only the announced length, and the time without any byte.
 *
 * The script can stop a body only by raising an error, because HAProxy ignores `filter.ERROR` from `http_payload`.
 * HAProxy then closes the connection to the service before the end of the body. The client gets an error from
 * `bodyFailures`, unless its response has started.
 */
import { type HttpLimits, httpLimits } from '../http/limits.ts'
import { type HttpRefusal, largeBody, slowBody } from '../http/refusal.ts'

export const bodyFilter = 'espalier-body'

export type BodyLimits = Pick<HttpLimits, 'bodyBytes' | 'bodyIntervalMs' | 'bodyIntervalBytes'>

/** For bodies that the script stopped: the text of the response, and the statuses that replace HAProxy's own status. */
export const bodyFailures = {
  bodyOr: ({ status, message }: HttpRefusal) =>
    `{"code":%[var(txn.failed,${status})],"message":"%[var(txn.failure,"${message}")]"}`,
  statuses: [largeBody(0), slowBody].map(({ status }) => status),
}

const fail = ({ status, message }: HttpRefusal) => `fail(txn, ${status}, "${message}")`

export function renderBodyScript(limits: Partial<BodyLimits> = {}): string {
  const { bodyBytes, bodyIntervalMs, bodyIntervalBytes } = { ...httpLimits, ...limits }
  return `-- Written by espalier gateway configuration; do not edit.
local Body = {}
Body.id = "limits of bodies"
Body.flags = filter.FLT_CFG_FL_HTX
Body.__index = Body

function Body:new()
  return setmetatable({ bytes = 0, interval_bytes = 0 }, Body)
end

function Body:start_analyze(_, channel)
  if not channel:is_resp() then filter.register_data_filter(self, channel) end
end

local function fail(txn, status, message)
  txn:set_var("txn.failed", tostring(status))
  txn:set_var("txn.failure", message)
  error(message, 0)
end

function Body:http_payload(txn, message)
  local time, length = core.now().sec, message:input()
  self.since = self.since or time
  self.bytes = self.bytes + length
  self.interval_bytes = self.interval_bytes + length
  if self.bytes > ${bodyBytes} then ${fail(largeBody(bodyBytes))} end
  if time - self.since < ${bodyIntervalMs / 1000} then return end
  if self.interval_bytes < ${bodyIntervalBytes} then ${fail(slowBody)} end
  self.since, self.interval_bytes = time, 0
end

core.register_filter("${bodyFilter}", Body, function(self) return self end)
`
}

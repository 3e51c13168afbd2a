/**
 * What `../logins.ts` does, for HAProxy: a script that it runs for each connection until that has logged in, and no
 * longer. Its counts are of this process; a connection that is forgotten in one stops to count when its time is over.
 */
import { type LoginLimits, turnsOfLogin } from '../logins.ts'

/** Names of its parts in the configuration. */
export const loginActions = { arrive: 'lua.espalier_arrive', begin: 'lua.espalier_begin', watch: 'lua.espalier_login' }
/** Where the script says why a connection gets no further. */
export const loginRefusal = 'logins'

/** By this command HAProxy says how many there are: a line for each port that has any, `port underway waiting`. */
export const loginsCommand = 'show espalier-logins'

/** How long a connection may take from its arrival to the beginning of its login; HAProxy cuts it off then. */
export const beginMs = 10_000

export const renderLoginScript = (
  limits: LoginLimits,
): string => `-- Written by espalier gateway configuration; changed by nobody.
local per_address, per_route, waiting_per_address = ${limits.perAddress}, ${limits.perRoute}, ${limits.waitingPerAddress}
local wait_s, hold_s, begin_s, turns_of_login = ${limits.waitMs / 1000}, ${limits.holdMs / 1000}, ${(beginMs - 500) / 1000}, ${turnsOfLogin}
local poll_ms = 50

-- Of each key the connections that count, and until when.
local waiting, underway = {}, {}
local serial = 0

local function now()
  local time = core.now()
  return time.sec + time.usec / 1000000
end

local function add(sets, key, id, seconds)
  sets[key] = sets[key] or {}
  sets[key][id] = now() + seconds
end

local function drop(sets, key, id)
  local set = sets[key]
  if set == nil then return end
  set[id] = nil
  if next(set) == nil then sets[key] = nil end
end

local function count(sets, key)
  local number, time = 0, now()
  for id, expiry in pairs(sets[key] or {}) do
    if expiry <= time then drop(sets, key, id) else number = number + 1 end
  end
  return number
end

-- A connection is known by a number, its port and its address.
local function read(txn)
  local text = txn:get_var("txn.login")
  if text == nil then return nil end
  local id, port, address = text:match("^(%d+) (%d+) (.+)$")
  return { id = id, port = port, key = port .. " " .. address }
end

core.register_action("espalier_arrive", { "tcp-req" }, function(txn)
  local port = tostring(txn:get_var("sess.port"))
  local address = txn.sf:src()
  local key = port .. " " .. address
  if count(waiting, key) >= waiting_per_address then
    txn:set_var("txn.reason", "${loginRefusal}")
    return
  end
  serial = serial + 1
  local id = string.format("%d", serial)
  add(waiting, key, id, begin_s + wait_s)
  txn:set_var("txn.login", id .. " " .. key)
  txn:set_var("txn.arrived", string.format("%.3f", now()))
end)

core.register_action("espalier_begin", { "tcp-req" }, function(txn)
  local login = read(txn)
  if login == nil then return end
  local time = now()
  local last = math.min(time + wait_s, tonumber(txn:get_var("txn.arrived")) + begin_s)
  while count(underway, login.key) >= per_address or count(underway, login.port) >= per_route do
    if now() >= last then
      drop(waiting, login.key, login.id)
      txn:set_var("txn.reason", "${loginRefusal}")
      return
    end
    core.msleep(poll_ms)
    -- Who has left meanwhile takes no turn; the connection is closed by what follows.
    if not txn.req:may_recv() then
      drop(waiting, login.key, login.id)
      txn:set_var("txn.left_early", true)
      return
    end
  end
  drop(waiting, login.key, login.id)
  add(underway, login.key, login.id, hold_s)
  add(underway, login.port, login.id, hold_s)
end)

local Login = { id = "login of espalier", flags = 0 }
Login.__index = Login

function Login:new()
  return setmetatable({ turns = 0, needed = nil, spoke = false, answering = false, over = false }, Login)
end

function Login:finish(txn)
  self.over = true
  local login = read(txn)
  if login == nil then return end
  drop(waiting, login.key, login.id)
  drop(underway, login.key, login.id)
  drop(underway, login.port, login.id)
end

function Login:start_analyze(txn, channel)
  if channel:is_resp() then self.answering = true end
  filter.register_data_filter(self, channel)
end

function Login:tcp_payload(txn, channel)
  if self.over then
    filter.unregister_data_filter(self, channel)
  elseif channel:is_resp() then
    if self.spoke then
      self.spoke = false
      self.turns = self.turns + 1
      if self.turns >= (self.needed or turns_of_login) then self:finish(txn) end
    end
  else
    -- Whoever asks for TLS sends eight bytes and waits.
    if self.needed == nil then self.needed = channel:input() == 8 and turns_of_login or turns_of_login - 1 end
    self.spoke = true
  end
end

-- The target's side ends a connection; of one that never got as far only the client's does.
function Login:end_analyze(txn, channel)
  if channel:is_resp() or not self.answering then self:finish(txn) end
end

core.register_cli({ ${loginsCommand
  .split(' ')
  .map(word => `"${word}"`)
  .join(', ')} }, "${loginsCommand} : connections that have not logged in", function(applet)
  local ports = {}
  local function tally(sets, which, pattern)
    local keys = {}
    for key in pairs(sets) do keys[#keys + 1] = key end
    for _, key in ipairs(keys) do
      local port = key:match(pattern)
      local number = port and count(sets, key) or 0
      if number > 0 then
        ports[port] = ports[port] or { underway = 0, waiting = 0 }
        ports[port][which] = ports[port][which] + number
      end
    end
  end
  tally(underway, "underway", "^(%d+)$")
  tally(waiting, "waiting", "^(%d+) ")
  local lines = {}
  for port, of in pairs(ports) do lines[#lines + 1] = string.format("%s %d %d\\n", port, of.underway, of.waiting) end
  applet:send(table.concat(lines))
end)

core.register_filter("espalier_login", Login, function(login) return login end)

core.register_task(function()
  while true do
    core.sleep(60)
    for _, sets in ipairs({ waiting, underway }) do
      local keys = {}
      for key in pairs(sets) do keys[#keys + 1] = key end
      for _, key in ipairs(keys) do count(sets, key) end
    end
  end
end)
`

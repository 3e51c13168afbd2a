/**
 * A Lua script for HAProxy that limits logins, like `../logins.ts` and `../login-progress.ts`. The script handles each
 * connection until the connection has logged in, and counts connections per HAProxy process. If the script misses the
 * end of a connection, the connection counts until its time limit.
 */
import { answersOfLogin } from '../login-progress.ts'
import type { LoginLimits } from '../logins.ts'

/** The names of the script's parts in the configuration. */
export const loginActions = { arrive: 'lua.espalier_arrive', begin: 'lua.espalier_begin', watch: 'lua.espalier_login' }
/** The value of `txn.reason` for a connection that the script refuses. */
export const loginRefusal = 'logins'

/**
 * The runtime API command that counts connections that have not logged in. It prints a line `<port> <underway>
 * <waiting>` for each port with such connections.
 */
export const loginsCommand = 'show espalier-logins'

/**
 * The maximum time from a connection's arrival to the start of its login. After this time, HAProxy closes the
 * connection.
 */
export const beginMs = 10_000

export const renderLoginScript = (
  limits: LoginLimits,
): string => `-- Written by espalier gateway configuration; do not edit.
local per_address, per_route, reserved_per_route = ${limits.perAddress}, ${limits.perRoute}, ${limits.reservedPerRoute}
local waiting_per_address, waiting_per_address_in_all = ${limits.waitingPerAddress}, ${limits.waitingPerAddressInAll}
local silent_per_address = ${limits.silentPerAddress}
local wait_s, slot_s, begin_s, answers_of_login = ${limits.waitMs / 1000}, ${limits.slotMs / 1000}, ${(beginMs - 500) / 1000}, ${answersOfLogin}
local poll_ms = 50

-- The counted connections of each key, and their expiry. A key is a port with an address, an address, or a port.
local silent, waiting, underway = {}, {}, {}
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

-- A connection is identified by a number, its port and the client's address.
local function read(txn)
  local text = txn:get_var("txn.login")
  if text == nil then return nil end
  local id, port, address = text:match("^(%d+) (%d+) (.+)$")
  return { id = id, port = port, address = address, key = port .. " " .. address }
end

-- Removes a connection from the silent and waiting sets.
local function leave(login)
  drop(silent, login.key, login.id)
  drop(silent, login.address, login.id)
  drop(waiting, login.key, login.id)
  drop(waiting, login.address, login.id)
end

local function has_slot(login)
  local own = count(underway, login.key)
  local slots = own == 0 and per_route or per_route - reserved_per_route
  return own < per_address and count(underway, login.port) < slots
end

core.register_action("espalier_arrive", { "tcp-req" }, function(txn)
  local port = tostring(txn:get_var("sess.port"))
  local address = txn.sf:src()
  local key = port .. " " .. address
  -- A script cannot close another connection. So above the limit, this script refuses the new connection instead of
  -- closing the oldest.
  if count(silent, address) >= silent_per_address then
    txn:set_var("txn.reason", "${loginRefusal}")
    return
  end
  serial = serial + 1
  local id = string.format("%d", serial)
  add(silent, key, id, begin_s + wait_s)
  add(silent, address, id, begin_s + wait_s)
  txn:set_var("txn.login", id .. " " .. key)
  txn:set_var("txn.arrived", string.format("%.3f", now()))
end)

core.register_action("espalier_begin", { "tcp-req" }, function(txn)
  local login = read(txn)
  if login == nil then return end
  leave(login)
  if count(waiting, login.key) >= waiting_per_address or count(waiting, login.address) >= waiting_per_address_in_all then
    txn:set_var("txn.reason", "${loginRefusal}")
    return
  end
  add(waiting, login.key, login.id, begin_s + wait_s)
  add(waiting, login.address, login.id, begin_s + wait_s)
  local time = now()
  local last = math.min(time + wait_s, tonumber(txn:get_var("txn.arrived")) + begin_s)
  while not has_slot(login) do
    if now() >= last then
      leave(login)
      txn:set_var("txn.reason", "${loginRefusal}")
      return
    end
    core.msleep(poll_ms)
    -- A client that has disconnected takes no slot. A later rule of haproxy.cfg closes the connection (txn.left_early).
    if not txn.req:may_recv() then
      leave(login)
      txn:set_var("txn.left_early", true)
      return
    end
  end
  leave(login)
  add(underway, login.key, login.id, slot_s)
  add(underway, login.port, login.id, slot_s)
end)

local Login = { id = "login of espalier", flags = 0 }
Login.__index = Login

function Login:new()
  local client, target = { head = "", left = 0 }, { head = "", left = 0 }
  return setmetatable({
    client = client, target = target, in_tls = false, requests = 0, request_filled = 0, passed = 0,
    hello = "", is_tls13 = false, spoke = false, answers = 0, answering = false, over = false,
  }, Login)
end

function Login:finish(txn)
  self.over = true
  local login = read(txn)
  if login == nil then return end
  leave(login)
  drop(underway, login.key, login.id)
  drop(underway, login.port, login.id)
end

function Login:start_analyze(txn, channel)
  if channel:is_resp() then self.answering = true end
  filter.register_data_filter(self, channel)
end

-- Calls on_record with the type and length of each TLS record that starts in this part of a stream.
local function records(reader, text, on_record)
  local at = 1
  while at <= #text do
    if reader.left > 0 then
      local passed = math.min(reader.left, #text - at + 1)
      reader.left = reader.left - passed
      at = at + passed
    else
      local taken = text:sub(at, at + 4 - #reader.head)
      reader.head = reader.head .. taken
      at = at + #taken
      if #reader.head < 5 then return end
      local kind, _, _, high, low = reader.head:byte(1, 5)
      reader.head, reader.left = "", high * 256 + low
      on_record(kind, reader.left)
    end
  end
end

local function client_said(self, text)
  local at = 1
  while not self.in_tls and at <= #text do
    if self.request_filled == 0 and text:byte(at) == 0x16 then
      self.in_tls = true
    else
      local passed = math.min(8 - self.request_filled, #text - at + 1)
      at = at + passed
      self.request_filled = (self.request_filled + passed) % 8
      if self.request_filled == 0 then self.requests = self.requests + 1 end
    end
  end
  if not self.in_tls then return end
  records(self.client, text:sub(at), function(kind)
    if kind == 0x17 then self.spoke = true end
  end)
end

-- The first byte of the cipher suite in the ServerHello shows whether this is TLS 1.3.
local function read_hello(self, text)
  if self.hello == nil then return end
  self.hello = self.hello .. text:sub(1, 128)
  local session_id = self.hello:byte(44)
  local cipher = session_id and self.hello:byte(45 + session_id)
  if cipher == nil then return end
  self.is_tls13 = cipher == 0x13
  self.hello = nil
end

local function target_said(self, text)
  if not self.in_tls then
    self.passed = self.passed + #text
    return
  end
  local plain = math.min(math.max(0, self.requests - self.passed), #text)
  self.passed = self.passed + plain
  text = text:sub(plain + 1)
  read_hello(self, text)
  records(self.target, text, function(kind, length)
    if kind ~= 0x17 or length < 31 or (self.answers > 0 and not self.spoke) then return end
    self.spoke = false
    self.answers = self.answers + 1
  end)
end

-- Returns no number, because a number would limit the forwarded bytes.
function Login:tcp_payload(txn, channel)
  local length = self.over and 0 or channel:input()
  -- For a length of 0, HAProxy 3.0 returns the channel, not a string. HAProxy 2.6 needs both arguments.
  local text = length > 0 and channel:data(0, length) or ""
  if channel:is_resp() then target_said(self, text) else client_said(self, text) end
  if self.answers < answers_of_login + (self.is_tls13 and 1 or 0) then return end
  if not self.over then self:finish(txn) end
  -- While a script reads a stream, HAProxy applies the client and server timeouts (10 s) instead of the tunnel timeout,
  -- and would end an idle session.
  filter.unregister_data_filter(self, txn.req)
  filter.unregister_data_filter(self, txn.res)
end

-- HAProxy calls this function for both sides of a connection, but without a target only for the client's side.
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
  tally(silent, "waiting", "^(%d+) ")
  tally(waiting, "waiting", "^(%d+) ")
  local lines = {}
  for port, of in pairs(ports) do lines[#lines + 1] = string.format("%s %d %d\\n", port, of.underway, of.waiting) end
  applet:send(table.concat(lines))
end)

core.register_filter("espalier_login", Login, function(login) return login end)

core.register_task(function()
  while true do
    core.sleep(60)
    for _, sets in ipairs({ silent, waiting, underway }) do
      local keys = {}
      for key in pairs(sets) do keys[#keys + 1] = key end
      for _, key in ipairs(keys) do count(sets, key) end
    end
  end
end)
`
